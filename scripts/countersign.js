#!/usr/bin/env node
/**
 * The command `countersign`, under any Node from 18 on and without a dependency. In a published package it runs the bundle,
 * in a checkout the sources, after setting the checkout up. Where this Node is too old, a checkout has a Node 24 of its own, which runs
 * instead, with this process's signals, streams and exit code; a published package brings none and says which is needed.
 */
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { isNewEnough, setup, SetupFailed } from "./setup.js"

const root = fileURLToPath(new URL("..", import.meta.url))
const source = join(root, "src", "main.ts")

const fail = (line) => {
  process.stderr.write(`countersign: ${line}\n`)
  process.exit(1)
}

/** The Node that a checkout has as a package for this platform, or `undefined`. */
const bundledNode = () => {
  const system = process.platform === "win32" ? "win" : process.platform
  const file = process.platform === "win32" ? "node.exe" : "node"
  for (const name of [`node-${system}-${process.arch}`, `node-bin-${system}-${process.arch}`]) {
    try {
      const program = join(
        dirname(createRequire(import.meta.url).resolve(`${name}/package.json`)),
        "bin",
        file
      )
      if (existsSync(program)) return program
    } catch {
      // Not for this platform: the next name.
    }
  }
  return undefined
}

/** A young generation of 8 MB a half: next to 16 a request costs a little more processor time, and the service stays some 30 MB smaller. */
const YOUNG = "--max-semi-space-size=8"

/** Runs the entry under another Node, which is this process in all but its id. */
const runUnder = (node, entry) => {
  const child = spawn(node, [YOUNG, entry, ...process.argv.slice(2)], { stdio: "inherit" })
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal))
  child.once("error", (error) =>
    fail(`${node} does not run here (${error.message}); install Node 24 from https://nodejs.org`)
  )
  child.once("exit", (code, signal) => {
    if (signal === null) process.exit(code ?? 1)
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
  })
}

const isCheckout = existsSync(source)
if (isCheckout) {
  try {
    setup()
  } catch (error) {
    if (!(error instanceof SetupFailed)) throw error
    fail(error.message)
  }
}

const entry = isCheckout ? source : join(root, "dist", "main.js")
if (isNewEnough(process.version)) await import(pathToFileURL(entry).href)
else {
  const node = bundledNode()
  if (node === undefined) {
    fail(
      `Node 22.19 or newer is needed (this is ${process.version}); install Node 24 from https://nodejs.org`
    )
  } else runUnder(node, entry)
}
