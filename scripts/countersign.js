#!/usr/bin/env node
/**
 * The `countersign` command. Starts on Node 18 or later without dependencies. In a published package it runs the
 * bundle; in a checkout it sets the checkout up and runs the bundle of its sources. If this Node is too old, a checkout
 * installs and runs Node 24 instead, forwarding signals, streams and the exit code; a published package includes no
 * Node and prints the required version.
 */
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import nodeModule from "node:module"
import { join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { nodeFlags } from "./nodeFlags.js"
import { installedNode, isNewEnough, setup, SetupFailed } from "./setup.js"

const root = fileURLToPath(new URL("..", import.meta.url))
const source = join(root, "src", "main.ts")

const fail = (line) => {
  process.stderr.write(`countersign: ${line}\n`)
  process.exit(1)
}

/** Runs the entry point on another Node, with this process's streams, signals and exit code. */
const runUnder = (node, entry) => {
  const child = spawn(node, [...nodeFlags, entry, ...process.argv.slice(2)], {
    stdio: "inherit",
    env: { ...process.env, ...(compileCache === undefined ? {} : { NODE_COMPILE_CACHE: compileCache }) }
  })
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal))
  child.once("error", (error) =>
    fail(`${node} does not run on this machine (${error.message}). Install Node 24 from https://nodejs.org`)
  )
  child.once("exit", (code, signal) => {
    if (signal === null) process.exit(code ?? 1)
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
  })
}

const isCheckout = existsSync(source)
let bundle
if (isCheckout) {
  try {
    // Other commands do not serve the console.
    bundle = setup({ withConsole: ["serve", "demo"].includes(process.argv[2]) })
  } catch (error) {
    if (!(error instanceof SetupFailed)) throw error
    fail(error.message)
  }
}

/** Compiled code is kept in the checkout, never in a directory that other accounts can write to. */
const compileCache = bundle === undefined ? undefined : join(root, "node_modules", ".cache", "countersign")

const entry = isCheckout ? (bundle ?? source) : join(root, "dist", "main.js")
if (isNewEnough(process.version)) {
  if (compileCache !== undefined) nodeModule.enableCompileCache(compileCache)
  await import(pathToFileURL(entry).href)
} else {
  const node = isCheckout ? installedNode() : undefined
  if (node === undefined) {
    fail(
      `Node 22.19 or later is required (this is ${process.version}). Install Node 24 from https://nodejs.org`
    )
  } else runUnder(node, entry)
}
