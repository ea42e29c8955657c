#!/bin/bash
sort -n /app/numbers.txt | tail -n 1 > /app/largest.txt
