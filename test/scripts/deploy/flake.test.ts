import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import path from "node:path"
import { root } from "../../../scripts/deploy/chartTools.ts"
import { nodeFlags } from "../../../scripts/nodeFlags.js"
import { VERSION } from "../../../src/domain/Version.ts"
import { variableNames } from "../../../src/server/config/Settings/variables.ts"

const Texts = Schema.Record(Schema.String, Schema.String)
const Locked = Schema.Record(
  Schema.String,
  Schema.Struct({ version: Schema.optionalKey(Schema.String), integrity: Schema.optionalKey(Schema.String) })
)
const Evaluated = Schema.fromJsonString(
  Schema.Struct({
    systems: Texts,
    program: Schema.String,
    shell: Schema.Array(Schema.String),
    checks: Schema.Record(Schema.String, Schema.Array(Schema.String)),
    formatter: Schema.String,
    package: Schema.Struct({
      version: Schema.String,
      installPhase: Schema.String,
      nodejs: Schema.String,
      packages: Schema.Record(
        Schema.String,
        Schema.Struct({
          resolved: Schema.optionalKey(Schema.String),
          integrity: Schema.optionalKey(Schema.String)
        })
      )
    }),
    module: Schema.Struct({
      options: Schema.Array(Schema.String),
      databases: Schema.Array(Schema.String),
      defaults: Texts,
      start: Schema.String,
      requires: Schema.Array(Schema.String),
      environment: Texts,
      environmentFile: Schema.Array(Schema.String),
      stopsAfter: Schema.Number,
      withoutDatabase: Schema.Struct({}),
      refused: Schema.NullOr(Schema.Array(Schema.Boolean))
    })
  })
)

const nix = spawnSync("nix-instantiate", ["--version"], { encoding: "utf8" })
const missing = nix.status === 0 ? undefined : "nix-instantiate is not installed"
if (missing !== undefined) process.stdout.write(`the Nix flake is not evaluated: ${missing}\n`)

/** The directory `lib` of nixpkgs. */
const nixpkgsLib = process.env["COUNTERSIGN_TEST_NIXPKGS_LIB"]
if (missing === undefined && nixpkgsLib === undefined)
  process.stdout.write(
    "the Nix flake is not evaluated with nixpkgs' lib: COUNTERSIGN_TEST_NIXPKGS_LIB is unset\n"
  )

/** The flake, evaluated with a few functions in place of nixpkgs, or of its packages alone: it is not built. */
const evaluate = (lib: string | undefined) => {
  const { status, stderr, stdout } = spawnSync(
    "nix-instantiate",
    [
      ...["--eval", "--strict", "--json", path.join(import.meta.dirname, "evaluateFlake.nix")],
      ...["--arg", "root", path.resolve(root)],
      ...(lib === undefined ? [] : ["--arg", "nixpkgsLib", path.resolve(lib)])
    ],
    {
      encoding: "utf8",
      env: { ...process.env, NIX_STATE_DIR: path.join(root, "node_modules", ".cache", "nix") }
    }
  )
  assert.strictEqual(status, 0, stderr)
  return Schema.decodeUnknownSync(Evaluated)(stdout)
}

const sources = [
  { by: "in place of nixpkgs", lib: undefined },
  ...(nixpkgsLib === undefined ? [] : [{ by: "in place of the packages of nixpkgs", lib: nixpkgsLib }])
]

describe.skipIf(missing !== undefined).each(sources)("the Nix flake, with replacements $by", ({ lib }) => {
  it("evaluates, with a package, an app, a shell and checks for each system", () => {
    const { checks, formatter, program, shell, systems } = evaluate(lib)
    assert.deepStrictEqual(systems, {
      "aarch64-darwin": "countersign",
      "aarch64-linux": "countersign",
      "x86_64-linux": "countersign"
    })
    assert.strictEqual(program, "/nix/store/countersign")
    assert.deepStrictEqual(shell, ["nodejs", "postgresql"])
    assert.deepStrictEqual(checks["x86_64-linux"], ["package", "service"])
    assert.deepStrictEqual(checks["aarch64-darwin"], ["package"])
    assert.strictEqual(formatter, "nixfmt")
  })

  it("builds this version from the packages of the lockfile, and starts it with the flags of npm start", () => {
    const { package: built } = evaluate(lib)
    assert.strictEqual(built.version, VERSION)
    assert.include(built.installPhase, nodeFlags.join(" "))
    assert.include(built.installPhase, "$out/lib/countersign/dist/main.js")
    const { packages } = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ packages: Locked })))(
      readFileSync(path.join(root, "package-lock.json"), "utf8")
    )
    const wanted = Object.entries(packages).filter(([, { integrity }]) => integrity !== undefined)
    assert.isAbove(wanted.length, 100)
    for (const [place, { integrity, version }] of wanted) {
      const name = place.replace(/^.*node_modules\//, "")
      const found = built.packages[place]
      assert.strictEqual(found?.integrity, integrity)
      assert.strictEqual(
        found?.resolved,
        `https://registry.npmjs.org/${name}/-/${name.replace(/^.*\//, "")}-${version}.tgz`
      )
    }
    assert.strictEqual(Object.keys(built.packages).length, wanted.length + 1)
  })

  it("has a module that runs the service with PostgreSQL of the machine, or with settings of the operator", () => {
    const { module } = evaluate(lib)
    assert.deepStrictEqual(module.options, ["database", "enable", "environmentFile", "package", "settings"])
    assert.deepStrictEqual(module.databases, ["countersign"])
    assert.deepStrictEqual(Object.keys(module.defaults), ["DATABASE_URL"])
    assert.deepStrictEqual(module.requires, ["postgresql.target"])
    assert.match(
      module.start,
      /COUNTERSIGN_MASTER_KEY[\s\S]+exec \/nix\/store\/countersign\/bin\/countersign serve/
    )
    assert.deepStrictEqual(module.environment, {
      NODE_ENV: "production",
      PORT: "9000",
      COUNTERSIGN_LOG_REQUESTS: "true"
    })
    for (const name of Object.keys(module.environment))
      assert.isTrue(name === "NODE_ENV" || variableNames.some((one) => one === name), name)
    assert.deepStrictEqual(module.environmentFile, ["/etc/countersign.env"])
    assert.isAbove(module.stopsAfter, 12)
    assert.deepStrictEqual(module.withoutDatabase, {})
    // By the types of nixpkgs: settings and packages of other types, relative paths, and options that the module does not have.
    assert.deepStrictEqual(module.refused, lib === undefined ? null : [true, true, true, true])
  })
})
