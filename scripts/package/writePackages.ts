/**
 * The published packages, made from a build of everything:
 *
 * - `countersign`: the API's schemas, the clients, the adapters and the receivers' helpers. Small.
 * - `countersign-cli`: the `countersign` command with what works on a service elsewhere.
 * - `countersign-server`: the command with everything, the service as a library, and the embedded PostgreSQL.
 *
 * `countersign/server` and `countersign/testing` are in `countersign-server`, which has every module that they do not share with the client; so
 * a class is the same class whichever package it is imported from. Application code names `countersign/…` alone.
 */
import type { Metafile } from "esbuild"
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import path from "node:path"
import { Schema } from "effect"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../..", import.meta.url))

const Names = Schema.Record(Schema.String, Schema.String)
const Exported = Schema.Union([
  Schema.String,
  Schema.Struct({ "@countersign/source": Schema.String, types: Schema.String, default: Schema.String })
])
const Manifest = Schema.fromJsonString(
  Schema.Struct({
    version: Schema.String,
    license: Schema.String,
    engines: Names,
    exports: Schema.Record(Schema.String, Exported),
    dependencies: Names,
    peerDependencies: Names,
    peerDependenciesMeta: Schema.Record(Schema.String, Schema.Struct({ optional: Schema.Boolean })),
    optionalDependencies: Names
  })
)
type Manifest = typeof Manifest.Type

const readManifest = (): Manifest =>
  Schema.decodeUnknownSync(Manifest)(readFileSync(path.join(root, "package.json"), "utf8"))

/** The entry points of `countersign-server`. */
const SERVER_EXPORTS = ["./server", "./testing"]

/** A command that imports this module works on the database, and is not in `countersign-cli`. */
const DATABASE = "src/server/store/Database.ts"

type Outputs = Metafile["outputs"]

/** Files that `starts` import, themselves included. `follow` says which dynamic imports count. */
const closureOf = (
  outputs: Outputs,
  starts: ReadonlyArray<string>,
  follow: (file: string) => boolean
): ReadonlySet<string> => {
  const found = new Set<string>()
  const add = (file: string): void => {
    const output = outputs[file]
    if (output === undefined || found.has(file)) return
    found.add(file)
    for (const { external, kind, path: imported } of output.imports) {
      if (external !== true && (kind !== "dynamic-import" || follow(imported))) add(imported)
    }
  }
  starts.forEach(add)
  return found
}

/** The npm package of an import, such as `@effect/sql-pg` of `@effect/sql-pg/PgClient`. */
const packageOf = (imported: string): string =>
  imported
    .split("/")
    .slice(0, imported.startsWith("@") ? 2 : 1)
    .join("/")

/** The npm packages that files import. */
const packagesOf = (outputs: Outputs, files: Iterable<string>): ReadonlySet<string> =>
  new Set(
    [...files].flatMap((file) =>
      (outputs[file]?.imports ?? [])
        .filter(({ external, path: imported }) => external === true && !imported.startsWith("node:"))
        .map(({ path: imported }) => packageOf(imported))
    )
  )

const pick = (names: Readonly<Record<string, string>>, wanted: ReadonlySet<string>) =>
  Object.fromEntries(Object.entries(names).filter(([name]) => wanted.has(name)))

/** Relative imports and re-exports of a declaration file. */
const RELATIVE = /(\bfrom |\bimport\(|\bimport )"(\.{1,2}\/[^"]+)"/g

/** The declaration file that an import of another one means. */
const declarationOf = (from: string, imported: string): string =>
  path.posix.join(path.posix.dirname(from), imported.replace(/\.(?:ts|js)$/, ".d.ts"))

/** Declaration files that `starts` import, themselves included. Relative to the build. */
const declarationsOf = (dist: string, starts: ReadonlyArray<string>): ReadonlySet<string> => {
  const found = new Set<string>()
  const add = (file: string): void => {
    if (found.has(file)) return
    found.add(file)
    for (const [, , imported = ""] of readFileSync(path.join(dist, file), "utf8").matchAll(RELATIVE))
      add(declarationOf(file, imported))
  }
  starts.forEach(add)
  return found
}

const write = (file: string, text: string): void => {
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, text)
}

const copy = (from: string, to: string): void => {
  mkdirSync(path.dirname(to), { recursive: true })
  copyFileSync(from, to)
}

const writeManifest = (folder: string, manifest: object): void =>
  write(path.join(folder, "package.json"), `${JSON.stringify(manifest, undefined, 2)}\n`)

/** Each package has a README of its own: that of the repository is about a checkout. */
const copyReadme = (folder: string): void =>
  copy(
    path.join(root, "scripts", "package", "readme", `${path.basename(folder)}.md`),
    path.join(folder, "README.md")
  )

/** A build. */
export interface Build {
  /** Its folder. Absolute. */
  readonly dist: string
  readonly library: Metafile
  /** The command. Without it, `countersign-cli` is not written, and `countersign-server` has no command. */
  readonly program?: Metafile
  /** Other files of `countersign-server`, such as those of the console. Relative to `dist`. */
  readonly serverFiles?: ReadonlyArray<string>
}

/** Outputs of a build by their paths relative to `dist`. */
const outputsIn = (dist: string, { outputs }: Metafile): Outputs => {
  const relative = (output: string) =>
    path.relative(dist, path.resolve(root, output)).split(path.sep).join("/")
  return Object.fromEntries(
    Object.entries(outputs).map(([file, output]) => [
      relative(file),
      {
        ...output,
        imports: output.imports.map((each) =>
          each.external === true ? each : { ...each, path: relative(each.path) }
        )
      }
    ])
  )
}

/** Modules that package.json exports. */
const exportedModules = (manifest: Manifest) =>
  Object.entries(manifest.exports).flatMap(([name, exported]) =>
    typeof exported === "string"
      ? []
      : [
          {
            name,
            file: path.posix.relative("dist", path.posix.normalize(exported.default)),
            types: path.posix.relative("dist", path.posix.normalize(exported.types)),
            isServer: SERVER_EXPORTS.includes(name)
          }
        ]
  )

const inDist = ({ file, types }: { readonly file: string; readonly types: string }) => ({
  types: `./dist/${types}`,
  default: `./dist/${file}`
})

/** Members of every manifest. */
const common = ({ license, version }: Manifest) => ({ version, license, type: "module", sideEffects: false })

/** What starts the command on any Node. */
const LAUNCHER = ["countersign", "freshness", "lock", "nodeFlags", "setup"].map(
  (name) => `scripts/${name}.js`
)

/** Writes the packages into folders of their names; returns the folders. */
export const writePackages = (folder: string, build: Build): ReadonlyArray<string> => {
  const { dist, program: programMetafile, serverFiles = [] } = build
  const manifest = readManifest()
  const modules = exportedModules(manifest)
  const library = outputsIn(dist, build.library)
  const clientModules = modules.filter(({ isServer }) => !isServer)
  const serverModules = modules.filter(({ isServer }) => isServer)
  const startsOf = (some: typeof modules) => some.map(({ file }) => file)
  const typesOf = (some: typeof modules) => some.map(({ types }) => types)
  const shared = closureOf(library, startsOf(clientModules), () => true)
  const sharedTypes = declarationsOf(dist, typesOf(clientModules))

  const writeClient = (): string => {
    const client = path.join(folder, "countersign")
    for (const file of [...shared, ...sharedTypes]) {
      copy(path.join(dist, file), path.join(client, "dist", file))
    }
    const reexports = serverModules.map(({ name }) => {
      const file = path.basename(name)
      return {
        name,
        file: `${file}.js`,
        types: `types/${file}.d.ts`,
        text: `export * from "countersign-server/${file}"\n`
      }
    })
    for (const { file, text, types } of reexports) {
      write(path.join(client, "dist", file), text)
      write(path.join(client, "dist", types), text)
    }
    for (const file of ["LICENSE", "approval-rules.schema.json"]) {
      copy(path.join(root, file), path.join(client, file))
    }
    copyReadme(client)
    writeManifest(client, {
      name: "countersign",
      description:
        "Clients, framework adapters and receiver helpers of Countersign: approvals of agents' steps, feedback, and telemetry.",
      ...common(manifest),
      engines: manifest.engines,
      exports: {
        ...Object.fromEntries(
          [...clientModules, ...reexports].map((module) => [module.name, inDist(module)])
        ),
        ...Object.fromEntries(
          Object.entries(manifest.exports).filter(([, file]) => typeof file === "string")
        ),
        // The modules that countersign-server of the same version shares. Not for applications.
        "./dist/*": "./dist/*"
      },
      files: ["dist", "approval-rules.schema.json"],
      dependencies: pick(manifest.dependencies, packagesOf(library, shared)),
      peerDependencies: { ...manifest.peerDependencies, "countersign-server": manifest.version },
      peerDependenciesMeta: { ...manifest.peerDependenciesMeta, "countersign-server": { optional: true } }
    })
    return client
  }

  /** Modules and declarations of the server, which import what they share with the client from its package. */
  const writeServerLibrary = (server: string): ReadonlyArray<string> => {
    const files = [...closureOf(library, startsOf(serverModules), () => true)].filter(
      (file) => !shared.has(file)
    )
    for (const file of files) {
      let text = readFileSync(path.join(dist, file), "utf8")
      for (const { external, path: imported } of library[file]?.imports ?? []) {
        if (external === true || !shared.has(imported)) continue
        const written = path.posix.relative(path.posix.dirname(file), imported)
        text = text.replaceAll(
          `"${written.startsWith(".") ? written : `./${written}`}"`,
          `"countersign/dist/${imported}"`
        )
      }
      write(path.join(server, "dist", file), text)
    }
    for (const file of declarationsOf(dist, typesOf(serverModules))) {
      if (sharedTypes.has(file)) continue
      const text = readFileSync(path.join(dist, file), "utf8")
      const linked = text.replaceAll(RELATIVE, (whole: string, keyword: string, imported: string) => {
        const target = declarationOf(file, imported)
        return sharedTypes.has(target)
          ? `${keyword}"countersign/dist/${target.replace(/\.d\.ts$/, ".js")}"`
          : whole
      })
      write(path.join(server, "dist", file), linked)
    }
    return files
  }

  const program = programMetafile === undefined ? {} : outputsIn(dist, programMetafile)
  const hasCommand = programMetafile !== undefined
  const command = {
    bin: { countersign: "scripts/countersign.js" },
    files: ["dist", "scripts", "THIRD_PARTY_LICENSES"]
  }
  const copyCommand = (target: string, files: Iterable<string>): void => {
    for (const file of files) copy(path.join(dist, file), path.join(target, "dist", file))
    for (const file of ["LICENSE", "THIRD_PARTY_LICENSES", ...LAUNCHER])
      copy(path.join(root, file), path.join(target, file))
  }

  const writeServer = (): string => {
    const server = path.join(folder, "countersign-server")
    const files = writeServerLibrary(server)
    if (hasCommand) copyCommand(server, [...Object.keys(program), ...serverFiles])
    const needed = new Set([...packagesOf(library, files), ...packagesOf(program, Object.keys(program))])
    copyReadme(server)
    writeManifest(server, {
      name: "countersign-server",
      description:
        "The Countersign service: feedback on task answers, telemetry export, and approvals with signed notifications, for teams that run AI tasks and agents.",
      ...common(manifest),
      engines: { node: ">=22.19" },
      ...(hasCommand ? command : { files: ["dist"] }),
      exports: {
        ...Object.fromEntries(serverModules.map((module) => [module.name, inDist(module)])),
        "./package.json": "./package.json"
      },
      dependencies: { countersign: manifest.version, ...pick(manifest.dependencies, needed) },
      peerDependencies: pick(manifest.peerDependencies, new Set(["effect"])),
      optionalDependencies: manifest.optionalDependencies
    })
    return server
  }

  const writeCommand = (): string => {
    const usesDatabase = (file: string) =>
      [...closureOf(program, [file], () => false)].some(
        (each) => (program[each]?.inputs[DATABASE]?.bytesInOutput ?? 0) > 0
      )
    // The pages of API references, which Effect imports on demand, are not used either.
    const isCommand = (file: string) => program[file]?.entryPoint?.startsWith("src/") === true
    const files = closureOf(program, ["main.js"], (file) => isCommand(file) && !usesDatabase(file))
    const cli = path.join(folder, "countersign-cli")
    copyCommand(cli, files)
    copyReadme(cli)
    writeManifest(cli, {
      name: "countersign-cli",
      description:
        "The countersign command for a service elsewhere: hooks of coding agents, the MCP gate, rules as code.",
      ...common(manifest),
      engines: { node: ">=22.19" },
      ...command,
      dependencies: pick(manifest.dependencies, packagesOf(program, files))
    })
    return cli
  }

  return [writeClient(), writeServer(), ...(hasCommand ? [writeCommand()] : [])]
}
