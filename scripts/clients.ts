/**
 * Generates clients from `openapi.json` with the usual generators, compiles them, and runs a scenario of some twenty calls with each
 * against a service (`npm run clients`). Installs the generators below node_modules/.cache first; one that this machine cannot have is
 * skipped with its reason. With `--installed`, as `npm run verify` runs it, no generator is installed.
 *
 *     npm run clients -- Java Rust    those of these languages
 */
import { spawnSync } from "node:child_process"
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { freePort } from "../test/support/freePort.ts"
import { Service } from "./docs/Service.ts"
import { parseOptions } from "./parseOptions.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
const document = path.join(root, "openapi.json")
const scenarios = path.join(root, "scripts", "clients")
const directory = path.join(root, "node_modules", ".cache", "clients")
const { positionals, values } = parseOptions(import.meta.filename, {
  allowPositionals: true,
  options: { installed: { type: "boolean", default: false } }
})
const mayInstall = !values.installed

const PYTHON = "openapi-python-client==0.29.1"
const GO = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
const GO_RUNTIME = "github.com/oapi-codegen/runtime@v1.8.0"
const OPENAPI_GENERATOR = "7.25.0"
/** The generator uses the compiler as a library, which version 7 is not; the project's npm installs no peers. */
const TYPESCRIPT = ["openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3"]

/** OpenAPI Generator prints megabytes about the document. */
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024

/** Runs a program, and throws with its output if it fails. */
const run = (
  program: string,
  args: ReadonlyArray<string>,
  cwd: string,
  env: NodeJS.ProcessEnv = {}
): string => {
  const { error, status, stderr, stdout } = spawnSync(program, args, {
    cwd,
    encoding: "utf8",
    maxBuffer: MAX_OUTPUT_BYTES,
    env: { ...process.env, ...env }
  })
  if (status !== 0) throw new Error(error?.message ?? `${program} ${args.join(" ")}\n${stdout}${stderr}`)
  return stdout
}

interface Target {
  readonly name: string
  /** A file that exists once the generator is installed. */
  readonly tool: string
  readonly install: () => void
  readonly generate: () => void
  /** The command of the scenario; the base URL and a key follow. */
  readonly scenario: readonly [program: string, ...args: ReadonlyArray<string>]
  readonly cwd: string
}

const python = path.join(directory, "python")
const venv = path.join(python, "venv")
const go = path.join(directory, "go")
const typescript = path.join(directory, "typescript")

/** A local repository of Maven's of its own, so that the place of the generator is known. */
const maven = path.join(directory, "maven")
const openApiGenerator = path.join(
  maven,
  "org/openapitools/openapi-generator-cli",
  OPENAPI_GENERATOR,
  `openapi-generator-cli-${OPENAPI_GENERATOR}.jar`
)
const mvn = (cwd: string, ...args: ReadonlyArray<string>) =>
  run("mvn", ["--quiet", "--batch-mode", `-Dmaven.repo.local=${maven}`, ...args], cwd)

const withoutDiscriminators = (key: string, value: unknown) => (key === "discriminator" ? undefined : value)

/** A client of OpenAPI Generator's, which it writes to the folder `client`. */
const generated = (
  target: Pick<Target, "name" | "scenario"> & {
    readonly generator: string
    readonly options: ReadonlyArray<string>
    /** Whether the generated code can read a union with a discriminator. Default true. */
    readonly hasDiscriminators?: boolean
    readonly compile: (client: string, cwd: string) => void
    readonly install?: (cwd: string) => void
  }
): Target => {
  const { compile, generator, hasDiscriminators = true, install, name, options, scenario } = target
  const cwd = path.join(directory, `openapi-generator-${generator}`)
  return {
    name,
    scenario,
    cwd,
    tool: path.join(cwd, "installed"),
    install: () => {
      if (!existsSync(openApiGenerator)) {
        const artifact = `org.openapitools:openapi-generator-cli:${OPENAPI_GENERATOR}`
        mvn(cwd, "dependency:get", `-Dartifact=${artifact}`, "-Dtransitive=false")
      }
      install?.(cwd)
      writeFileSync(path.join(cwd, "installed"), "")
    },
    generate: () => {
      const client = path.join(cwd, "client")
      rmSync(client, { recursive: true, force: true })
      const input = path.join(cwd, "openapi.json")
      const text = readFileSync(document, "utf8")
      writeFileSync(input, hasDiscriminators ? text : JSON.stringify(JSON.parse(text, withoutDiscriminators)))
      const args = ["generate", "--input-spec", input, "--generator-name", generator, "--output", client]
      run("java", ["-jar", openApiGenerator, ...args, ...options], cwd)
      compile(client, cwd)
    }
  }
}

const JAVA_PACKAGES = ["api", "model"].flatMap((part) => [`--${part}-package`, `countersign.${part}`])

/** Compiles a project of Maven's, with its dependencies beside its classes. */
const compileMaven = (client: string) =>
  mvn(client, "-Dmaven.test.skip", "compile", "dependency:copy-dependencies", "-DincludeScope=runtime")

const CLASSES = [path.join("client", "target", "classes"), path.join("client", "target", "dependency", "*")]

const targets: ReadonlyArray<Target> = [
  generated({
    name: "Python, by OpenAPI Generator",
    generator: "python",
    options: ["--package-name", "countersign"],
    install: (cwd) => run("python3", ["-m", "venv", "venv"], cwd),
    compile: (client, cwd) => {
      run(path.join(cwd, "venv", "bin", "pip"), ["install", "--quiet", client], cwd)
      cpSync(path.join(scenarios, "generator.py"), path.join(cwd, "scenario.py"))
    },
    scenario: [path.join("venv", "bin", "python"), "scenario.py"]
  }),
  generated({
    name: "Rust",
    generator: "rust",
    // It takes the property out of the members, which require it.
    hasDiscriminators: false,
    options: ["--additional-properties", "packageName=countersign"],
    compile: (client, cwd) => {
      mkdirSync(path.join(client, "examples"))
      cpSync(path.join(scenarios, "scenario.rs"), path.join(client, "examples", "scenario.rs"))
      const manifest = path.join(client, "Cargo.toml")
      const development = `\n[dev-dependencies]\ntokio = { version = "1", features = ["rt", "macros"] }\n`
      writeFileSync(manifest, readFileSync(manifest, "utf8") + development)
      run("cargo", ["build", "--quiet", "--example", "scenario"], client, {
        CARGO_TARGET_DIR: path.join(cwd, "target")
      })
    },
    scenario: [path.join("target", "debug", "examples", "scenario")]
  }),
  generated({
    name: "Java",
    generator: "java",
    // Without the last one it sends an empty list for a list that the caller leaves out.
    options: [
      ...["--library", "native", "--invoker-package", "countersign", ...JAVA_PACKAGES],
      ...["--additional-properties", "containerDefaultToNull=true"]
    ],
    compile: (client) => {
      cpSync(path.join(scenarios, "Scenario.java"), path.join(client, "src", "main", "java", "Scenario.java"))
      compileMaven(client)
    },
    scenario: ["java", "-classpath", CLASSES.join(path.delimiter), "Scenario"]
  }),
  {
    name: "Python",
    tool: path.join(venv, "bin", "openapi-python-client"),
    install: () => {
      run("python3", ["-m", "venv", venv], python)
      run(path.join(venv, "bin", "pip"), ["install", "--quiet", PYTHON], python)
    },
    generate: () => {
      const client = path.join(python, "countersign_client")
      const config = path.join(python, "config.json")
      rmSync(client, { recursive: true, force: true })
      writeFileSync(
        config,
        JSON.stringify({
          // Types by their content: the generator knows only the usual ones.
          content_type_overrides: {
            "application/problem+json": "application/json",
            "application/x-ndjson": "text/plain"
          },
          literal_enums: true,
          post_hooks: []
        })
      )
      const args = ["--path", document, "--output-path", client, "--meta", "none", "--config", config]
      run(path.join(venv, "bin", "openapi-python-client"), ["generate", "--fail-on-warning", ...args], python)
      cpSync(path.join(scenarios, "scenario.py"), path.join(python, "scenario.py"))
    },
    scenario: [path.join(venv, "bin", "python"), "scenario.py"],
    cwd: python
  },
  {
    name: "Go",
    tool: path.join(go, "bin", "oapi-codegen"),
    install: () => run("go", ["install", GO], go, { GOBIN: path.join(go, "bin") }),
    generate: () => {
      mkdirSync(path.join(go, "countersign"), { recursive: true })
      writeFileSync(path.join(go, "go.mod"), "module countersign.test/clients\n\ngo 1.24\n")
      cpSync(path.join(scenarios, "scenario.go"), path.join(go, "scenario.go"))
      const output = path.join("countersign", "client.gen.go")
      const config = path.join(go, "config.json")
      writeFileSync(
        config,
        JSON.stringify({
          package: "countersign",
          output,
          generate: { models: true, client: true },
          // Otherwise it leaves out the schemas of the webhooks, whose types it uses.
          "output-options": { "skip-prune": true }
        })
      )
      run(path.join(go, "bin", "oapi-codegen"), ["-config", config, document], go)
      run("go", ["get", GO_RUNTIME], go)
      run("go", ["build", "-o", "scenario", "."], go)
    },
    scenario: [path.join(go, "scenario")],
    cwd: go
  },
  {
    name: "TypeScript",
    tool: path.join(typescript, "node_modules", ".bin", "openapi-typescript"),
    install: () =>
      run("npm", ["install", "--no-audit", "--no-fund", "--save-exact", ...TYPESCRIPT], typescript),
    generate: () => {
      const generator = path.join(typescript, "node_modules", ".bin", "openapi-typescript")
      run(generator, [document, "-o", "schema.d.ts"], typescript)
      cpSync(path.join(scenarios, "scenario.ts"), path.join(typescript, "scenario.ts"))
      const tsc = path.join(root, "node_modules", "typescript", "bin", "tsc")
      const types = ["--types", "node", "--typeRoots", path.join(root, "node_modules", "@types")]
      const options = ["--ignoreConfig", "--strict", "--module", "nodenext", "--target", "es2024", ...types]
      run(process.execPath, [tsc, ...options, "scenario.ts"], typescript)
    },
    scenario: [process.execPath, "scenario.js"],
    cwd: typescript
  }
]

/** Installs the generator unless `--installed` is given; returns the reason if it cannot run. */
const prepare = ({ cwd, install, tool }: Target): string | undefined => {
  if (existsSync(tool)) return undefined
  if (!mayInstall) return "its generator is not installed: `npm run clients` installs it"
  mkdirSync(cwd, { recursive: true })
  // A package of its own, so that npm installs here.
  writeFileSync(path.join(cwd, "package.json"), JSON.stringify({ private: true, type: "module" }))
  try {
    install()
    return undefined
  } catch (error) {
    const [reason = ""] = String(error).split("\n")
    return `its generator cannot be installed: ${reason}`
  }
}

const chosen = targets.filter(
  ({ name }) => positionals.length === 0 || positionals.some((word) => name.includes(word))
)
const ready = chosen.filter((target) => {
  const reason = prepare(target)
  if (reason !== undefined) process.stdout.write(`${target.name}: skipped, ${reason}\n`)
  return reason === undefined
})

if (ready.length > 0) {
  const port = await freePort()
  const data = mkdtempSync(path.join(tmpdir(), "countersign-clients-"))
  // As root, PostgreSQL runs as another account, which must be able to enter.
  chmodSync(data, 0o755)
  const service = new Service({
    ...process.env,
    PORT: String(port),
    COUNTERSIGN_DATA_DIR: path.join(data, "store")
  })
  try {
    await service.start("exec node scripts/countersign.js serve")
    for (const { cwd, generate, scenario } of ready) {
      generate()
      const [program, ...args] = scenario
      process.stdout.write(run(program, [...args, `http://127.0.0.1:${port}`, service.adminKey ?? ""], cwd))
    }
  } finally {
    await service.stop()
    rmSync(data, { recursive: true, force: true })
  }
}
