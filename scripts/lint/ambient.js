/**
 * Lint rule `countersign-ambient/no-ambient`: code that runs in the simulation takes time, randomness, scheduling and
 * the network from Effect's services, which the simulation replaces. Whatever it took from the process instead would
 * differ between two runs of the same seed.
 */

/** Properties of globals; `*` stands for all of them. */
const properties = {
  Date: ["now"],
  Math: ["random"],
  performance: ["*"],
  crypto: ["*"],
  process: ["hrtime", "nextTick", "uptime"],
  Effect: ["runFork", "runPromise", "runPromiseExit", "runSync", "runSyncExit", "runCallback"]
}

const functions = [
  "setTimeout",
  "setInterval",
  "setImmediate",
  "queueMicrotask",
  "requestAnimationFrame",
  "fetch"
]

/** Modules with timers, random numbers or sockets. */
const modules =
  /^(node:)?(crypto|timers|net|tls|http|https|http2|dgram|dns|perf_hooks|worker_threads|child_process)(\/|$)|^undici$/

const instead =
  "Take it from an Effect service (Clock, Random, Scheduler, a channel), which the simulation replaces."

const rule = {
  create(context) {
    const report = (node, name) => context.report({ node, message: `${name} is not simulated. ${instead}` })
    return {
      MemberExpression(node) {
        if (node.object.type !== "Identifier") return
        const names = Object.hasOwn(properties, node.object.name) ? properties[node.object.name] : []
        const property = node.computed ? node.property.value : node.property.name
        if (names.includes("*") || names.includes(property)) report(node, `${node.object.name}.${property}`)
      },
      CallExpression(node) {
        if (node.callee.type === "Identifier" && functions.includes(node.callee.name)) {
          report(node, node.callee.name)
        }
      },
      NewExpression(node) {
        if (node.callee.type === "Identifier" && node.callee.name === "Date" && node.arguments.length === 0) {
          report(node, "new Date()")
        }
      },
      ImportDeclaration(node) {
        if (modules.test(node.source.value)) report(node.source, node.source.value)
      }
    }
  }
}

export default { meta: { name: "countersign-ambient" }, rules: { "no-ambient": rule } }
