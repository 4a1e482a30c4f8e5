#!/bin/sh
# A scripted stand-in for an agent that was asked to update one dependency.
set -eu
# Newer releases of npm ask before a package's own scripts run. This agent was told to get on with it.
export npm_config_dangerously_allow_all_scripts=true
echo "> updating plant-label to 1.1.0"
npm install --offline --no-audit --no-fund --no-update-notifier ./vendor/plant-label-1.1.0.tgz
echo "> running the tests"
npm test --silent
echo "> done: package.json and package-lock.json changed"
