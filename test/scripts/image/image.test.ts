import { Ajv } from "ajv"
import { Effect, Exit, Redacted, Schema, Scope } from "effect"
import { spawn, spawnSync } from "node:child_process"
import { createHash, randomBytes } from "node:crypto"
import { once } from "node:events"
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { gunzipSync } from "node:zlib"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { reachByTcp } from "../../../scripts/image/reachByTcp.ts"
import {
  cannotRun,
  type Container,
  type ContainerConfig,
  readImage,
  startContainer,
  unpackImage
} from "../../../scripts/image/runContainer.ts"
import { architectures, ownArchitecture, root } from "../../../scripts/image/sources.ts"
import { ACCOUNT, variants } from "../../../scripts/image/variants.ts"
import { freePort } from "../../support/freePort.ts"
import { cloneDatabase } from "../../support/postgres.ts"

const folder = mkdtempSync(path.join(tmpdir(), "countersign-image-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** That of this machine, unless COUNTERSIGN_TEST_IMAGE_ARCH names another, which the kernel must run by an emulator. */
const architecture = Schema.decodeUnknownSync(Schema.Literals(architectures))(
  process.env["COUNTERSIGN_TEST_IMAGE_ARCH"] ?? ownArchitecture
)

/** An emulated service takes minutes to create its database. */
const startTimeout = architecture === ownArchitecture ? 120_000 : 900_000

/** Builds both variants once. Returns the reason why they cannot be built here. */
const build = async (output: string, ...more: ReadonlyArray<string>): Promise<string | undefined> => {
  const child = spawn(
    process.execPath,
    ["scripts/image.ts", "--archive", "--arch", architecture, "--output", output, ...more],
    {
      cwd: root,
      env: { ...process.env, SOURCE_DATE_EPOCH: "1767225600" },
      stdio: ["ignore", "pipe", "pipe"]
    }
  )
  let printed = ""
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (printed += text))
  const [code] = await once(child, "close")
  if (code === 0) return undefined
  // Debian's or npm's packages, without a network, or the program that unpacks them.
  if (/cannot (?:be downloaded|download)|the program xz/.test(printed)) return printed.trim()
  throw new Error(printed)
}

const missing = await build(folder)
const notRun = missing ?? cannotRun(architecture)
if (notRun !== undefined)
  process.stdout.write(`images are not ${missing === undefined ? "run" : "built"}: ${notRun}\n`)

const layoutOf = (variant: string) => path.join(folder, variant)
const rootOf = (variant: string) => path.join(folder, `${variant}-root`)
const blobsOf = (variant: string) => path.join(layoutOf(variant), "blobs", "sha256")
const parse = (bytes: Buffer): unknown => JSON.parse(bytes.toString())
const digestOf = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")

const Manifests = Schema.Struct({ manifests: Schema.Array(Schema.Struct({ digest: Schema.String })) })

const isReady = async (port: number): Promise<boolean> => {
  try {
    return (await fetch(`http://127.0.0.1:${port}/readyz`)).status === 200
  } catch {
    return false
  }
}

const untilReady = async (container: Container, port: number): Promise<void> => {
  while (!(await isReady(port))) {
    if (container.child.exitCode !== null) assert.fail(container.output())
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** Sends a signal to the first process of a container. */
const signal = (container: Container, name: NodeJS.Signals): void => {
  const pid = container.pid()
  if (pid === undefined) assert.fail("the container has not started")
  process.kill(pid, name)
}

describe.skipIf(missing !== undefined)("a container image", () => {
  it("is valid by the schemas of the OCI image specification, and its blobs have their digests and sizes", () => {
    const schemas = path.join(import.meta.dirname, "oci-schemas")
    const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true })
    const Draft4 = Schema.Record(Schema.String, Schema.Unknown)
    for (const name of readdirSync(schemas).filter((one) => one.endsWith(".json"))) {
      // The schemas are of draft 4, whose identifiers Ajv does not know; they refer to each other by the names of their files.
      const text = readFileSync(path.join(schemas, name), "utf8").replaceAll(
        /"(?:id|\$schema)": "http[^"]*",?/g,
        ""
      )
      ajv.addSchema(Schema.decodeUnknownSync(Draft4)(JSON.parse(text.replaceAll(/,(\s*\})/g, "$1"))), name)
    }
    const valid = (schema: string, value: unknown) =>
      assert.isTrue(ajv.validate(schema, value), `${schema}: ${ajv.errorsText(ajv.errors)}`)
    assert.isFalse(ajv.validate("image-manifest-schema.json", { schemaVersion: 2, config: {} }))
    for (const variant of variants) {
      const layout = layoutOf(variant)
      valid("image-layout-schema.json", parse(readFileSync(path.join(layout, "oci-layout"))))
      valid("image-index-schema.json", parse(readFileSync(path.join(layout, "index.json"))))
      const { layers, manifests, rootfs } = readImage(layout)
      for (const name of readdirSync(blobsOf(variant)))
        assert.strictEqual(digestOf(readFileSync(path.join(blobsOf(variant), name))), name)
      for (const { digest, size } of [...manifests, ...layers])
        assert.strictEqual(statSync(path.join(layout, "blobs", digest.replace(":", "/"))).size, size)
      for (const { digest } of manifests)
        valid(
          "image-manifest-schema.json",
          parse(readFileSync(path.join(layout, "blobs", digest.replace(":", "/"))))
        )
      assert.deepStrictEqual(
        layers.map(
          ({ digest }) =>
            `sha256:${digestOf(gunzipSync(readFileSync(path.join(layout, "blobs", digest.replace(":", "/")))))}`
        ),
        rootfs.diff_ids
      )
    }
  })

  it("has the same digest if the service is built again", async () => {
    const again = path.join(folder, "again")
    assert.isUndefined(await build(again, "--rebuild"))
    for (const variant of variants) {
      const index = (output: string) => readFileSync(path.join(output, variant, "index.json"), "utf8")
      assert.strictEqual(index(again), index(folder))
      // Also the archive, whose blobs are compared by it.
      assert.strictEqual(
        digestOf(readFileSync(path.join(again, `${variant}.tar`))),
        digestOf(readFileSync(path.join(folder, `${variant}.tar`)))
      )
    }
    rmSync(again, { recursive: true })
  })

  it("is an archive that docker load and podman load read", () => {
    const Docker = Schema.Array(
      Schema.Struct({
        Config: Schema.String,
        RepoTags: Schema.Array(Schema.String),
        Layers: Schema.Array(Schema.String)
      })
    )
    for (const variant of variants) {
      const archive = path.join(folder, `${variant}.tar`)
      const tar = (...args: ReadonlyArray<string>) => spawnSync("tar", ["--file", archive, ...args])
      const names = new Set(tar("--list").stdout.toString().trim().split("\n"))
      const member = (name: string) => parse(tar("--extract", "--to-stdout", name).stdout)
      assert.deepStrictEqual(member("oci-layout"), { imageLayoutVersion: "1.0.0" })
      // One manifest: these programs take each for an image.
      assert.deepStrictEqual(
        Schema.decodeUnknownSync(Manifests)(member("index.json")).manifests.map(({ digest }) => digest),
        [readImage(layoutOf(variant)).manifests[0]?.digest]
      )
      const [image] = Schema.decodeUnknownSync(Docker)(member("manifest.json"))
      assert.match(image?.RepoTags[0] ?? "", new RegExp(`^countersign:.+-${variant}$`))
      for (const name of [image?.Config ?? "", ...(image?.Layers ?? [])]) assert.isTrue(names.has(name), name)
    }
  })

  it("has its software bill of materials attached, with Debian's packages, Node.js and the bundled packages", () => {
    const Attached = Schema.Struct({
      artifactType: Schema.String,
      subject: Schema.Struct({ digest: Schema.String }),
      layers: Schema.NonEmptyArray(Schema.Struct({ digest: Schema.String, mediaType: Schema.String }))
    })
    const Bom = Schema.Struct({
      bomFormat: Schema.Literal("CycloneDX"),
      components: Schema.Array(Schema.Struct({ purl: Schema.optionalKey(Schema.String) }))
    })
    for (const variant of variants) {
      const { manifests } = readImage(layoutOf(variant))
      const blob = (digest: string) =>
        parse(readFileSync(path.join(layoutOf(variant), "blobs", digest.replace(":", "/"))))
      const attached = Schema.decodeUnknownSync(Attached)(blob(manifests[1]?.digest ?? ""))
      assert.strictEqual(attached.subject.digest, manifests[0]?.digest)
      assert.strictEqual(attached.artifactType, "application/vnd.cyclonedx+json")
      const { components } = Schema.decodeUnknownSync(Bom)(blob(attached.layers[0].digest))
      const purls = components.map(({ purl = "" }) => purl)
      const has = (prefix: string) => purls.some((purl) => purl.startsWith(prefix))
      for (const prefix of [
        "pkg:deb/debian/libc6@",
        "pkg:generic/node@24.",
        "pkg:npm/effect@",
        "pkg:npm/react-dom@"
      ])
        assert.isTrue(has(prefix), prefix)
      assert.strictEqual(has("pkg:deb/debian/postgresql-17@"), variant === "full")
      assert.isFalse(has("pkg:npm/%40embedded-postgres/"))
      assert.isFalse(has("pkg:npm/vitest@"))
    }
  })
})

describe.skipIf(notRun !== undefined)("a container", { timeout: startTimeout }, () => {
  const configs = new Map<string, ContainerConfig>()
  const scope = Scope.makeUnsafe()
  const running: Array<Container> = []

  beforeAll(() => {
    for (const variant of variants) configs.set(variant, unpackImage(layoutOf(variant), rootOf(variant)))
  })

  afterAll(async () => {
    for (const { kill } of running) kill()
    await Promise.all(running.map(({ ended }) => ended))
    await Effect.runPromise(Scope.close(scope, Exit.void))
  })

  const start = (
    variant: "slim" | "full",
    options: Partial<Parameters<typeof startContainer>[0]> = {}
  ): Container => {
    const config = configs.get(variant)
    if (config === undefined) throw new Error(`${variant} is not unpacked`)
    const container = startContainer({ folder: rootOf(variant), config, ...options })
    running.push(container)
    return container
  }

  const databaseUrl = async (): Promise<string> => {
    const url = await Effect.runPromise(Scope.provide(cloneDatabase, scope))
    const reached = await reachByTcp(Redacted.value(url))
    await Effect.runPromise(Scope.addFinalizer(scope, Effect.sync(reached.close)))
    return reached.url
  }

  it("of slim serves as an unprivileged account and writes no file, and SIGTERM stops it gracefully", async () => {
    const port = await freePort()
    const env = {
      PORT: String(port),
      DATABASE_URL: await databaseUrl(),
      COUNTERSIGN_MASTER_KEY: randomBytes(32).toString("base64")
    }
    // What the Job of the Helm chart runs first, after which the service creates no tables.
    const migrated = start("slim", { env, args: ["migrate"] })
    assert.strictEqual(await migrated.ended, 0, migrated.output())
    const container = start("slim", { env: { ...env, COUNTERSIGN_CREATE_DATABASE: "false" } })
    await untilReady(container, port)
    const status = readFileSync(`/proc/${container.pid()}/status`, "utf8")
    assert.match(status, new RegExp(`^Uid:\\s+${ACCOUNT}\\s+${ACCOUNT}\\s`, "m"))
    assert.match(status, /^CapEff:\s+0+$/m)
    // The first process of its namespace.
    assert.match(status, /^NSpid:.*\t1$/m)
    const page = await fetch(`http://127.0.0.1:${port}/console/`)
    assert.strictEqual(page.status, 200)
    const healthcheck = (more: Readonly<Record<string, string>>) =>
      start("slim", {
        env: { ...env, ...more },
        entrypoint: configs.get("slim")?.Healthcheck.Test.slice(1) ?? [],
        args: []
      })
    assert.strictEqual(await healthcheck({}).ended, 0)
    assert.strictEqual(await healthcheck({ PORT: String(await freePort()) }).ended, 1)
    const listed = start("slim", {
      env,
      entrypoint: ["/usr/local/bin/countersign"],
      args: ["keys", "create", "--preset", "admin"]
    })
    assert.strictEqual(await listed.ended, 0, listed.output())
    assert.match(listed.output(), /csk_/)
    signal(container, "SIGTERM")
    assert.strictEqual(await container.ended, 0, container.output())
    assert.match(container.output(), /"state":"stopped"/)
    assert.notMatch(container.output(), /EROFS|read-only/)
  })

  it("of slim without DATABASE_URL says what to set", async () => {
    const container = start("slim")
    assert.strictEqual(await container.ended, 1)
    assert.match(container.output(), /DATABASE_URL is unset, and this image has no PostgreSQL: set it to/)
  })

  it("of full keeps its database in the volume, and SIGTERM stops both processes", async () => {
    const volume = path.join(folder, "volume")
    const port = await freePort()
    const env = { PORT: String(port), COUNTERSIGN_ADMIN_KEY: adminKey() }
    const read = () =>
      fetch(`http://127.0.0.1:${port}/v1/tasks`, {
        headers: { authorization: `Bearer ${env.COUNTERSIGN_ADMIN_KEY}` }
      })
    for (const _ of ["created", "found again"]) {
      const container = start("full", { env, volume })
      await untilReady(container, port)
      assert.strictEqual((await read()).status, 200)
      signal(container, "SIGTERM")
      assert.strictEqual(await container.ended, 0, container.output())
      // PostgreSQL has removed it: it was not killed.
      assert.isFalse(readdirSync(path.join(volume, "postgres")).includes("postmaster.pid"))
    }
    assert.strictEqual(statSync(path.join(volume, "master-key")).uid, ACCOUNT)
  })

  it("has no shell in slim, no development dependencies, no caches, no set-user-ID program and no secrets", () => {
    const files = (variant: string) =>
      spawnSync("find", [rootOf(variant), "-printf", "%P\\n"], { encoding: "utf8" })
        .stdout.trim()
        .split("\n")
    assert.deepStrictEqual(
      files("slim").filter((name) => /(?:^|\/)s?bin\/(?!node$|countersign$)/.test(name)),
      []
    )
    for (const variant of variants) {
      const all = files(variant)
      assert.isAbove(all.length, 200)
      for (const unwanted of [
        /node_modules/,
        /\.npm(?:rc)?$/,
        /_cacache/,
        /\.env$/,
        /master-key/,
        /\.map$/,
        /\.git(?:$|\/)/,
        /\.test\./
      ])
        assert.deepStrictEqual(
          all.filter((name) => unwanted.test(name)),
          [],
          String(unwanted)
        )
      const special = spawnSync("find", [rootOf(variant), "-perm", "/6000"], { encoding: "utf8" })
      assert.strictEqual(special.stdout, "")
      const writable = spawnSync("find", [rootOf(variant), "!", "-type", "l", "-perm", "/022"], {
        encoding: "utf8"
      })
      assert.strictEqual(writable.stdout.trim(), path.join(rootOf(variant), "tmp"))
    }
  })
})

/** A key of the form that `countersign keys generate` prints. */
const adminKey = (): string => {
  const { stdout } = spawnSync(process.execPath, ["src/main.ts", "keys", "generate"], {
    cwd: root,
    encoding: "utf8"
  })
  return stdout.trim()
}
