#!/usr/bin/env node
// Stands in for the program that opens a browser.
import { open } from './person.mjs';

await open(process.argv.at(-1));
