#!/bin/bash
# Runs after the agent has ended, in a place of its own. The reward is a number from 0 to 1.
mkdir -p /logs/verifier
if [ "$(tr -d '[:space:]' < /app/largest.txt 2>/dev/null)" = "93" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
