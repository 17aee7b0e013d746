import { assert, describe, it } from "@effect/vitest"
import { Ajv } from "ajv"
import { Schema } from "effect"
import { readFileSync } from "node:fs"
import path from "node:path"
import { bundledPackages } from "../../../scripts/package/bundledPackages.ts"
import { readPublishedPackages, root } from "../../../scripts/package/lockedPackages.ts"
import { type Component, makeBom } from "../../../scripts/package/sbom.ts"

const json = (...file: ReadonlyArray<string>): unknown =>
  JSON.parse(readFileSync(path.join(root, ...file), "utf8"))

const decode = <A>(schema: Schema.ConstraintDecoder<A>, value: unknown): A =>
  Schema.decodeUnknownSync(schema)(value)

const published = readPublishedPackages()
const bundled = bundledPackages(
  ["node_modules/effect/dist/Effect.js", "node_modules/react/index.js", "src/console/main.tsx", "\0runtime"],
  published
)
const bom = makeBom(published, bundled)

const find = (components: ReadonlyArray<Component>, name: string): Component =>
  components.find((component) => component.name === name) ?? assert.fail(`no component ${name}`)

describe("the software bill of materials", () => {
  it("is valid CycloneDX 1.6", () => {
    const library = ["scripts", "lint", "node_modules", "@cyclonedx", "cyclonedx-library"]
    const schema = (name: string) =>
      decode(
        Schema.Record(Schema.String, Schema.Unknown),
        json(...library, "res", "schema", `${name}.SNAPSHOT.schema.json`)
      )
    // The formats are URIs and dates of members that the document does not have.
    const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true })
    for (const name of ["spdx", "jsf-0.82"])
      ajv.addSchema(schema(name), `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json`)
    const validate = ajv.compile(schema("bom-1.6"))
    const text: unknown = JSON.parse(JSON.stringify(bom))
    assert.isTrue(validate(text), ajv.errorsText(validate.errors))
    // The check would find a mistake.
    assert.isFalse(validate({ ...bom, components: [{ ...bom.components[0], scope: "sometimes" }] }))
  })

  it("has every package that npm installs for users, with the digest of its tarball", () => {
    const Entry = Schema.Struct({
      version: Schema.optionalKey(Schema.String),
      dev: Schema.optionalKey(Schema.Boolean),
      integrity: Schema.optionalKey(Schema.String)
    })
    const { packages } = decode(
      Schema.Struct({ packages: Schema.Record(Schema.String, Entry) }),
      json("package-lock.json")
    )
    const wanted = Object.entries(packages).filter(([place, { dev }]) => place !== "" && dev !== true)
    assert.isAbove(wanted.length, 15)
    for (const [place, { integrity, version }] of wanted) {
      const name = place.replace(/^.*node_modules\//, "")
      const found = bom.components.find(
        ({ group, name: own, version: its }) =>
          (group === undefined ? own : `${group}/${own}`) === name && its === version
      )
      const digest = found?.hashes?.[0]?.content ?? assert.fail(`no digest of ${name}`)
      assert.strictEqual(`sha512-${Buffer.from(digest, "hex").toString("base64")}`, integrity)
    }
  })

  it("has what the console bundles, and says what is bundled", () => {
    const isBundled = (name: string) =>
      find(bom.components, name).properties?.some(({ value }) => value === "true") === true
    assert.isTrue(isBundled("react"))
    assert.isTrue(isBundled("effect"))
    assert.isFalse(isBundled("undici"))
    assert.isUndefined(bom.components.find(({ name }) => name === "vitest"))
    assert.throws(() => bundledPackages(["node_modules/vitest/index.js"], published), /node_modules\/vitest/)
  })

  it("has the libraries in the packaged PostgreSQL, by which scanners find vulnerabilities", () => {
    const linux = find(bom.components, "linux-x64")
    const libraries = linux.components ?? []
    assert.strictEqual(find(libraries, "PostgreSQL").version, linux.version?.split(".", 2).join("."))
    assert.strictEqual(find(libraries, "OpenSSL").cpe, "cpe:2.3:a:openssl:openssl:1.1.1:*:*:*:*:*:*:*")
    assert.includeMembers(
      libraries.map(({ name }) => name),
      ["ICU", "zlib", "libxml2", "liblzma"]
    )
  })

  it("is the same for the same packages, and refers to nothing that it lacks", () => {
    assert.deepEqual(makeBom(readPublishedPackages(), bundled), bom)
    assert.notStrictEqual(makeBom(published, new Set()).serialNumber, bom.serialNumber)
    const refs = bom.components.map((component) => component["bom-ref"])
    assert.strictEqual(new Set(refs).size, refs.length)
    const known = new Set([bom.metadata.component["bom-ref"], ...refs])
    for (const { dependsOn, ref } of bom.dependencies)
      for (const one of [ref, ...dependsOn]) assert.isTrue(known.has(one), one)
  })
})
