/**
 * Lint rule `countersign/area-imports`: the import order of `src`, and the privacy of the areas of `src/server`.
 *
 * - A top-level folder of `src` imports only the folders listed for it, and neither tests nor scripts.
 * - An area of `src/server` imports only the areas listed for it.
 * - From another area, only the files at an area's root may be imported (`store/transaction.ts`); its folders are private. `Server.ts` and
 *   the `main` layers, which assemble the service, may import any file.
 */
import path from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../..", import.meta.url))

/** Folders of `src` that each folder may import. */
const folders = {
  domain: [],
  api: ["domain"],
  webhook: [],
  ticket: [],
  feedback: [],
  client: ["api", "domain"],
  adapters: ["client", "domain"],
  console: ["api", "client", "domain"],
  server: ["api", "domain", "ticket", "webhook"],
  testing: ["api", "cli", "client", "domain", "server", "webhook"],
  cli: ["adapters", "api", "client", "domain", "server", "testing", "webhook"]
}

const upToStore = ["observability", "concurrency", "admission", "store"]
const upToSecrets = [...upToStore, "secrets"]
const upToIdentity = [...upToSecrets, "egress", "delivery", "identity"]

/** Areas of `src/server` that each area may import, from the bottom up. */
const areas = {
  observability: [],
  concurrency: ["observability"],
  admission: ["observability", "concurrency"],
  store: ["observability", "concurrency", "admission"],
  secrets: upToStore,
  egress: ["observability", "concurrency", "admission"],
  delivery: upToSecrets,
  identity: upToStore,
  config: ["egress", "store", "secrets", "observability"],
  notifications: upToIdentity,
  redaction: upToIdentity,
  telemetry: [...upToIdentity, "notifications"],
  tasks: [...upToIdentity, "telemetry"],
  approvals: [...upToIdentity, "telemetry", "notifications", "tasks"],
  deletion: [...upToIdentity, "telemetry", "tasks", "approvals"],
  http: [...upToIdentity],
  console: [...upToIdentity, "approvals", "tasks", "notifications", "telemetry", "http"],
  main: undefined
}

/** `{ folder, area, isInside }` of a file under `src`, or `undefined`. */
const locate = (file) => {
  const [src, folder, area, ...rest] = path.relative(root, file).split(path.sep)
  if (src !== "src" || folder === undefined || area === undefined) return undefined
  return folder === "server" && rest.length > 0
    ? { folder, area, isInside: rest.length > 1 }
    : { folder, area: undefined, isInside: false }
}

/** The reason why `from` may not import `to`, or `undefined`. */
const reasonAgainst = (from, to) => {
  if (from.folder !== to.folder) {
    const allowed = folders[from.folder]
    if (allowed === undefined || allowed.includes(to.folder)) return undefined
    return `src/${from.folder} may import only ${allowed.length === 0 ? "itself" : allowed.map((name) => `src/${name}`).join(", ")}, not src/${to.folder}.`
  }
  if (from.area === undefined || from.area === to.area) return undefined
  const allowed = areas[from.area]
  if (allowed === undefined) return undefined
  if (to.area === undefined) return `The area ${from.area} may not import the root of src/server.`
  if (!allowed.includes(to.area)) {
    return `The area ${from.area} may import only ${allowed.length === 0 ? "no other area" : allowed.join(", ")}, not ${to.area}.`
  }
  return to.isInside
    ? `The folders of the area ${to.area} are private to it: export this from a file at the area's root.`
    : undefined
}

const rule = {
  create(context) {
    const from = locate(context.filename)
    if (from === undefined) return {}
    const check = (node) => {
      const specifier = node.source?.value
      if (typeof specifier !== "string" || !specifier.startsWith(".")) return
      const file = path.resolve(path.dirname(context.filename), specifier)
      const [top] = path.relative(root, file).split(path.sep)
      if (top === "test" || top === "scripts") {
        context.report({ node: node.source, message: "The sources do not import tests or scripts." })
        return
      }
      const to = locate(file)
      const reason = to === undefined ? undefined : reasonAgainst(from, to)
      if (reason !== undefined) context.report({ node: node.source, message: reason })
    }
    return {
      ImportDeclaration: check,
      ExportNamedDeclaration: check,
      ExportAllDeclaration: check,
      ImportExpression: check
    }
  }
}

export default { meta: { name: "countersign" }, rules: { "area-imports": rule } }
