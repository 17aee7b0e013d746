/**
 * Generates clients from `openapi.json` with the usual generators and runs a scenario of some twenty calls with each,
 * the event stream included, against a service (`npm run clients`). Installs the generators below node_modules/.cache
 * first; one that this machine cannot have is skipped with its reason. With `--installed`, as `npm run verify` runs it,
 * nothing is installed.
 */
import { spawnSync } from "node:child_process"
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { freePort } from "../test/support/freePort.ts"
import { Service } from "./docs/Service.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
const document = path.join(root, "openapi.json")
const scenarios = path.join(root, "scripts", "clients")
const directory = path.join(root, "node_modules", ".cache", "clients")
const mayInstall = !process.argv.includes("--installed")

const PYTHON = "openapi-python-client==0.29.1"
const GO = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
const GO_RUNTIME = "github.com/oapi-codegen/runtime@v1.8.0"
const TYPESCRIPT = ["openapi-typescript@7.13.0", "openapi-fetch@0.17.0"]

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

const targets: ReadonlyArray<Target> = [
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
      const args = ["-generate", "types,client", "-package", "countersign", "-o", output, document]
      run(path.join(go, "bin", "oapi-codegen"), args, go)
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

const ready = targets.filter((target) => {
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
