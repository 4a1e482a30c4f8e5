const assert = require("node:assert");
const { label } = require("plant-label");

assert.match(label("basil"), /^basil/);
console.log("labels are fine");
