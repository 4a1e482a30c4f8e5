exports.label = (name) => `${name}`;
