exports.label = (name) => `${name} (planted)`;
