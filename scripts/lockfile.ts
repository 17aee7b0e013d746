/**
 * Completes package-lock.json, also of the packages in `scripts`. `npm ci` rejects a lockfile that lacks an optional
 * package of any platform, and npm omits such a package if the registry it used does not have it. Adds the missing
 * entries with version and platform, derived from their names; npm adds the rest. With `--check`, fails if entries are
 * missing.
 */
import { Schema } from "effect"
import { readFileSync, writeFileSync } from "node:fs"

const files = [
  "package-lock.json",
  ...["bench", "lint", "mutants"].map((name) => `scripts/${name}/package-lock.json`)
]
const Entry = Schema.Record(Schema.String, Schema.Unknown)
const Lockfile = Schema.StructWithRest(Schema.Struct({ packages: Schema.Record(Schema.String, Entry) }), [
  Entry
])
const OptionalDependencies = Schema.Struct({
  optionalDependencies: Schema.optionalKey(Schema.Record(Schema.String, Schema.String))
})

/** `binding-linux-x64-musl` → linux, x64, musl. */
const platformOf = (name: string) => {
  const [os, cpu, ...libc] = name
    .replace(/^.*\//, "")
    .replace(/^(binding|tsgo)-/, "")
    .split("-")
  const flavor = libc.includes("musl") ? ["musl"] : libc.includes("gnu") ? ["glibc"] : undefined
  return { cpu: [cpu], os: [os], ...(flavor === undefined ? {} : { libc: flavor }) }
}

/** The lockfile in full, and the names that it lacked. */
const complete = (text: string) => {
  const { packages: found, ...rest } = Schema.decodeUnknownSync(Schema.fromJsonString(Lockfile))(text)
  const packages = { ...found }
  const missing: Array<string> = []
  for (const [path, entry] of Object.entries(found)) {
    const { optionalDependencies = {} } = Schema.decodeUnknownSync(OptionalDependencies)(entry)
    for (const [name, version] of Object.entries(optionalDependencies)) {
      if (path === "" || `node_modules/${name}` in packages || `${path}/node_modules/${name}` in packages)
        continue
      const dev = entry["dev"] === true ? { dev: true } : {}
      packages[`node_modules/${name}`] = { version, ...platformOf(name), ...dev, optional: true }
      missing.push(name)
    }
  }
  const sorted = Object.fromEntries(Object.entries(packages).toSorted(([a], [b]) => (a < b ? -1 : 1)))
  return { missing, text: `${JSON.stringify({ ...rest, packages: sorted }, null, 2)}\n` }
}

for (const file of files) {
  const url = new URL(`../${file}`, import.meta.url)
  const { missing, text } = complete(readFileSync(url, "utf8"))
  if (missing.length === 0) continue
  if (process.argv.includes("--check")) {
    process.stderr.write(`${file} lacks ${missing.join(", ")}; run: node scripts/lockfile.ts\n`)
    process.exitCode = 1
  } else {
    writeFileSync(url, text)
    process.stdout.write(`${file}: added ${missing.length}\n`)
  }
}
