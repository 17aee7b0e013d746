import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { spawn, spawnSync } from "node:child_process"
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { governedRun, type GovernedRun } from "../../adapters/governedRun.ts"
import { eventually } from "../../support/eventually.ts"
import { type Block, type ScriptedModel, startScriptedModel } from "../../support/hooks/scriptedModel.ts"
import { entryPoint } from "../../support/process.ts"
import { service } from "../../support/service.ts"

// Claude Code and Codex themselves, without their models. Nothing leaves the machine.

const packages = fileURLToPath(new URL("../../../scripts/agents/node_modules", import.meta.url))
const native = `${process.platform}-${process.arch}`

/** The newest Claude Code, and the oldest that can be governed. */
const CLAUDE = {
  newest: path.join(packages, "@anthropic-ai", `claude-code-${native}`, "claude"),
  oldest: path.join(
    packages,
    "claude-code-lowest/node_modules/@anthropic-ai",
    `claude-code-${native}`,
    "claude"
  )
}
const CODEX = path.join(packages, ".bin", "codex")

/** The machine's settings are in /etc: they are tested in a mount namespace, which needs root. */
const canMount = spawnSync("unshare", ["-m", "true"]).status === 0 && process.getuid?.() === 0

interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

/** A project, with an account and the command `countersign` of its own. */
const workplace = Effect.fnUntraced(function* (name: string) {
  const run = yield* governedRun(name)
  const root = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(path.join(tmpdir(), "countersign-agents-"))),
    // Programs that were killed can still write.
    (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true, maxRetries: 10 }))
  )
  const directory = path.join(root, "project")
  const home = path.join(root, "home")
  const bin = path.join(root, "bin")
  for (const made of [directory, home, bin]) mkdirSync(made)
  const pid = path.join(root, "pid")
  const script = (text: string) => {
    writeFileSync(path.join(bin, "countersign"), `#!/bin/sh\n${text}\n`)
    chmodSync(path.join(bin, "countersign"), 0o755)
  }
  script(`echo $$ > ${pid}\nexec ${process.execPath} ${entryPoint()} "$@"`)
  const environment = (more: Readonly<Record<string, string>>) => ({
    PATH: [bin, path.dirname(process.execPath), "/usr/bin", "/bin"].join(path.delimiter),
    HOME: home,
    CODEX_HOME: path.join(home, ".codex"),
    COUNTERSIGN_KEY: run.key,
    COUNTERSIGN_URL: run.url,
    // Other hosts than this one are out of reach.
    HTTPS_PROXY: "http://127.0.0.1:9",
    HTTP_PROXY: "http://127.0.0.1:9",
    NO_PROXY: "127.0.0.1",
    ...more
  })
  const start = (command: ReadonlyArray<string>, more: Readonly<Record<string, string>> = {}) => {
    const [program = "", ...args] = command
    const child = spawn(program, args, {
      cwd: directory,
      env: environment(more),
      stdio: ["ignore", "pipe", "pipe"]
    })
    let out = ""
    let err = ""
    child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text))
    child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text))
    const ended = new Promise<Ended>((done, fail) => {
      child.once("error", fail)
      child.once("close", (code) => done({ code, out, err }))
    })
    return { ended, kill: () => child.kill("SIGKILL") }
  }
  return {
    run,
    root,
    directory,
    home,
    bin,
    start,
    exec: (command: ReadonlyArray<string>, more?: Readonly<Record<string, string>>) =>
      Effect.promise(() => start(command, more).ended),
    /** The process of the newest hook. */
    hookProcess: () => Number(readFileSync(pid, "utf8")),
    breakCommand: () => rmSync(path.join(bin, "countersign")),
    /** What the commands of the model have written. */
    executed: () => {
      const file = path.join(directory, "ran.txt")
      return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : []
    },
    linkAgent: (name: string, program: string) =>
      writeFileSync(path.join(bin, name), `#!/bin/sh\nexec ${program} "$@"\n`, { mode: 0o755 })
  }
})

type Workplace = Effect.Success<ReturnType<typeof workplace>>

/** Runs a command with folders of /etc in a mount namespace of its own. */
const withEtc = ({ root }: Workplace, script: string): ReadonlyArray<string> => {
  for (const name of ["upper", "work"]) mkdirSync(path.join(root, name), { recursive: true })
  const options = `lowerdir=/etc,upperdir=${root}/upper,workdir=${root}/work`
  return ["unshare", "-m", "sh", "-c", `mount -t overlay overlay -o ${options} /etc && ${script}`]
}

const QUIET = {
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  DISABLE_AUTOUPDATER: "1",
  DISABLE_TELEMETRY: "1",
  IS_SANDBOX: "1"
}

/** The mode in which calls can be deferred. The default depends on version and model. */
const MODE = ["--permission-mode", "default"]

/** A command line and the variables of a headless run of Claude Code. */
const claude = (program: string, model: ScriptedModel, ...args: ReadonlyArray<string>) =>
  [
    [program, "-p", "go", ...MODE, "--output-format", "json", "--allowedTools", "Bash,Skill", ...args],
    { ...QUIET, ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: "sk-ant-none" }
  ] as const

/** A command line and the variables of a headless run of Codex, whose settings name the model server. */
const codex = ({ home }: Workplace, { url }: ScriptedModel, directory: string) => {
  const file = path.join(home, ".codex", "config.toml")
  mkdirSync(path.dirname(file), { recursive: true })
  const before = existsSync(file) ? readFileSync(file, "utf8") : ""
  if (!before.includes("[model_providers.scripted]"))
    writeFileSync(
      file,
      `model = "gpt-5.1-codex"
model_provider = "scripted"
${before}
[model_providers.scripted]
name = "scripted"
base_url = "${url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"

[projects."${directory}"]
trust_level = "trusted"
`
    )
  return [
    [CODEX, "exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "go"],
    { SCRIPTED_KEY: "none" }
  ] as const
}

const bash = (command: string, id?: string): Block => ({
  tool: "Bash",
  input: { command: `echo ${command} >> ran.txt`, description: "try" },
  ...(id === undefined ? {} : { id })
})

const shell = (cmd: string, id?: string): Block => ({
  tool: "exec_command",
  input: { cmd: `echo ${cmd} >> ran.txt` },
  ...(id === undefined ? {} : { id })
})

const rulesOf = (run: GovernedRun, ...rules: Parameters<GovernedRun["replaceRules"]>[0]) =>
  run.replaceRules(rules)

const rejectAll = { effect: "reject", reason: "Not here" } as const
const allowAll = { effect: "allow" } as const

const lastResult = (model: ScriptedModel): string => model.results.at(-1) ?? ""

const options = { excludeTestServices: true, timeout: "120 seconds" } as const

layer(service(), options)("Claude Code itself", (it) => {
  for (const [version, program] of Object.entries(CLAUDE)) {
    const test = (
      name: string,
      turns: ReadonlyArray<ReadonlyArray<Block>>,
      body: (place: Workplace, model: ScriptedModel) => Effect.Effect<void, unknown>,
      install: ReadonlyArray<string> = []
    ) =>
      it.effect(`${version} › ${name}`, () =>
        Effect.gen(function* () {
          const place = yield* workplace(`claude ${version} ${name}`.slice(0, 100))
          place.linkAgent("claude", program)
          const model = yield* startScriptedModel(turns)
          const installed = yield* place.exec([
            ...["countersign", "hook", "install", "claude-code", "--yes"],
            ...install
          ])
          assert.strictEqual(installed.code, 0, installed.err)
          yield* body(place, model)
        }).pipe(Effect.scoped)
      )

    test("executes what a rule allows", [[bash("RAN")]], (place, model) =>
      Effect.gen(function* () {
        yield* rulesOf(place.run, allowAll)
        yield* place.exec(...claude(program, model))
        assert.deepStrictEqual(place.executed(), ["RAN"])
      })
    )

    test("does not execute what a rule rejects, and tells the model", [[bash("RAN")]], (place, model) =>
      Effect.gen(function* () {
        yield* rulesOf(place.run, rejectAll)
        yield* place.exec(...claude(program, model, "--dangerously-skip-permissions"))
        assert.deepStrictEqual(place.executed(), [])
        assert.include(lastResult(model), "A rule rejected this call, so it was not executed. Not here")
      })
    )

    test(
      "executes both of two calls with the same ID",
      [[bash("ONE", "call_0")], [bash("TWO", "call_0")]],
      (place, model) =>
        Effect.gen(function* () {
          yield* rulesOf(place.run, allowAll)
          yield* place.exec(...claude(program, model))
          assert.deepStrictEqual(place.executed(), ["ONE", "TWO"])
        })
    )

    test(
      "executes nothing if the service is down, for a command and over HTTP",
      [[bash("RAN")]],
      (place, model) =>
        Effect.gen(function* () {
          const down = "http://127.0.0.1:9"
          yield* place.exec(...withVariables(claude(program, model), { COUNTERSIGN_URL: down }))
          const http = ["countersign", "hook", "install", "claude-code", "--yes", "--http", "--url", down]
          assert.strictEqual((yield* place.exec(http)).code, 0)
          yield* place.exec(...claude(program, model))
          assert.deepStrictEqual(place.executed(), [])
        })
    )

    test(
      "executes nothing if the command is missing, is killed, or takes too long",
      [[bash("RAN")]],
      (place, model) =>
        Effect.gen(function* () {
          // Every call waits for a person.
          const running = place.start(...claude(program, model))
          yield* pendingApproval(place.run)
          yield* Effect.sync(() => process.kill(place.hookProcess(), "SIGKILL"))
          yield* Effect.promise(() => running.ended)
          const file = path.join(place.directory, ".claude", "settings.json")
          writeFileSync(file, readFileSync(file, "utf8").replaceAll('"timeout": 600', '"timeout": 2'))
          yield* place.exec(...claude(program, model))
          place.breakCommand()
          yield* place.exec(...claude(program, model))
          assert.deepStrictEqual(place.executed(), [])
        })
    )

    test(
      "does not run the shell commands in the text of a skill",
      [[{ tool: "Skill", input: { skill: "hello" } }]],
      (place, model) =>
        Effect.gen(function* () {
          yield* rulesOf(place.run, { tool: "Skill", effect: "allow" }, rejectAll)
          const skill = path.join(place.directory, ".claude", "skills", "hello")
          mkdirSync(skill, { recursive: true })
          const text =
            "---\nname: hello\ndescription: says hello\nallowed-tools: Bash\n---\nResult: !`echo SKILL >> ran.txt`\n"
          writeFileSync(path.join(skill, "SKILL.md"), text)
          yield* place.exec(...claude(program, model))
          assert.deepStrictEqual(place.executed(), [])
        })
    )

    test(
      "over HTTP, executes what a rule allows and nothing else",
      [[bash("ONE")], [bash("TWO")]],
      (place, model) =>
        Effect.gen(function* () {
          yield* rulesOf(
            place.run,
            { effect: "allow", when: [{ pointer: "/command", op: "equals", value: "echo ONE >> ran.txt" }] },
            rejectAll
          )
          const http = ["countersign", "hook", "install", "claude-code", "--yes", "--http"]
          assert.strictEqual((yield* place.exec([...http, "--url", place.run.url])).code, 0)
          yield* place.exec(...claude(program, model))
          assert.deepStrictEqual(place.executed(), ["ONE"])
        })
    )

    // A resumed session has a text of its own between the two.
    const resumed = [[bash("RAN")], [bash("NEVER")], [bash("RAN")]]
    test("leaves the decision for the resumed session when it is killed", resumed, (place, model) =>
      Effect.gen(function* () {
        const running = place.start(...claude(program, model))
        yield* pendingApproval(place.run)
        const hook = place.hookProcess()
        running.kill()
        yield* Effect.promise(() => running.ended)
        yield* eventually(
          Effect.sync(() => isRunning(hook)),
          (runs) => !runs
        )
        yield* Effect.promise(() => place.run.decide("approve", "Bash"))
        const sessions = readdirSync(path.join(place.home, ".claude", "projects"), {
          recursive: true,
          encoding: "utf8"
        })
        const session = path.basename(sessions.find((name) => name.endsWith(".jsonl")) ?? "", ".jsonl")
        yield* place.exec(...claude(program, model, "--resume", session))
        assert.deepStrictEqual(place.executed(), ["RAN"])
        const { approvals } = yield* Effect.promise(() => place.run.client.approvals.list({ query: {} }))
        assert.lengthOf(approvals, 1)
      })
    )

    test(
      "ends a run at the first of several calls that need a person, and executes all after they are approved",
      [[bash("ONE"), bash("TWO")], [bash("TWO")]],
      (place, model) =>
        Effect.gen(function* () {
          const first = yield* place.exec(...claude(program, model))
          assert.include(first.out, '"terminal_reason":"tool_deferred"')
          const session = String(Reflect.get(Object(JSON.parse(first.out)), "session_id"))
          for (const name of ["ONE", "TWO"])
            yield* Effect.promise(() =>
              place.run.decide("approve", "Bash", {
                arguments: { command: `echo ${name} >> ran.txt`, description: "try" }
              })
            )
          yield* place.exec(...claude(program, model, "--resume", session))
          assert.deepStrictEqual(place.executed(), ["ONE", "TWO"])
          const { approvals } = yield* Effect.promise(() => place.run.client.approvals.list({ query: {} }))
          assert.lengthOf(approvals, 2)
        }),
      ["--defer"]
    )

    if (canMount)
      test("runs the machine's hooks in a project that disables hooks", [[bash("RAN")]], (place, model) =>
        Effect.gen(function* () {
          yield* rulesOf(place.run, rejectAll)
          rmSync(path.join(place.directory, ".claude"), { recursive: true })
          mkdirSync(path.join(place.directory, ".claude"))
          writeFileSync(
            path.join(place.directory, ".claude", "settings.local.json"),
            JSON.stringify({ disableAllHooks: true, disableSkillShellExecution: false })
          )
          const [command, variables] = claude(program, model)
          const install = "countersign hook install claude-code --managed --yes >&2"
          const ended = yield* place.exec(
            withEtc(place, `${install} && ${command.map((part) => `'${part}'`).join(" ")}`),
            variables
          )
          assert.include(ended.err, "written: /etc/claude-code/managed-settings.json")
          assert.deepStrictEqual(place.executed(), [])
          assert.include(lastResult(model), "A rule rejected this call")
        })
      )
  }
})

const withVariables = (
  [command, variables]: readonly [ReadonlyArray<string>, Readonly<Record<string, string>>],
  more: Readonly<Record<string, string>>
) => [command, { ...variables, ...more }] as const

const isRunning = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** Waits until a call waits for a person. */
const pendingApproval = ({ client }: GovernedRun) =>
  eventually(
    Effect.promise(() => client.approvals.list({ query: { status: "pending" } })),
    ({ approvals }) => approvals.length > 0
  )

layer(service(), options)("Codex itself", (it) => {
  const test = (
    name: string,
    turns: ReadonlyArray<ReadonlyArray<Block>>,
    body: (
      place: Workplace,
      model: ScriptedModel,
      run: Effect.Effect<Ended>,
      install: (...args: ReadonlyArray<string>) => Effect.Effect<Ended>
    ) => Effect.Effect<void, unknown>
  ) =>
    it.effect(name, () =>
      Effect.gen(function* () {
        const place = yield* workplace(`codex ${name}`.slice(0, 100))
        place.linkAgent("codex", CODEX)
        const model = yield* startScriptedModel(turns)
        const command = codex(place, model, place.directory)
        yield* body(place, model, place.exec(...command), (...args) =>
          place.exec(["countersign", "hook", "install", "codex", "--yes", ...args])
        )
      }).pipe(Effect.scoped)
    )

  test(
    "skips hooks that nobody trusts, and the command says so",
    [[shell("RAN")]],
    (place, _model, run, install) =>
      Effect.gen(function* () {
        yield* rulesOf(place.run, rejectAll)
        const check = place.exec(["countersign", "hook", "check", "codex"])
        assert.include((yield* check).err, "not active: calls are not governed. Codex finds no hook")
        const installed = yield* install()
        assert.strictEqual(installed.code, 1)
        assert.include(
          installed.err,
          "not active: calls are not governed. Codex skips the hook: untrusted in"
        )
        yield* run
        assert.deepStrictEqual(place.executed(), ["RAN"])
        // Trusted as it is.
        assert.strictEqual((yield* install("--trust")).code, 0)
        assert.strictEqual((yield* check).code, 0)
        yield* run
        assert.deepStrictEqual(place.executed(), ["RAN"])
        // Another one is not trusted again without being told to.
        const changed = yield* install("--wait", "8m")
        assert.strictEqual(changed.code, 1)
        assert.include(changed.err, "modified in")
        assert.strictEqual((yield* install("--wait", "8m", "--trust")).code, 0)
        yield* run
        assert.deepStrictEqual(place.executed(), ["RAN"])
      })
  )

  test(
    "executes what a rule allows and nothing else, and tells the model",
    [[shell("ONE", "call_0")], [shell("TWO", "call_0")], [shell("THREE", "call_0")]],
    (place, model, run, install) =>
      Effect.gen(function* () {
        const command = (name: string) => ({
          pointer: "/command",
          op: "equals" as const,
          value: `echo ${name} >> ran.txt`
        })
        yield* rulesOf(
          place.run,
          { effect: "allow", when: [command("ONE")] },
          { effect: "allow", when: [command("THREE")] },
          rejectAll
        )
        assert.strictEqual((yield* install("--user", "--trust")).code, 0)
        yield* run
        assert.deepStrictEqual(place.executed(), ["ONE", "THREE"])
        assert.include(
          model.results.join("\n"),
          "A rule rejected this call, so it was not executed. Not here"
        )
      })
  )

  test("closes its agent session when it ends", [[shell("RAN")]], (place, _model, run, install) =>
    Effect.gen(function* () {
      yield* rulesOf(place.run, allowAll)
      assert.strictEqual((yield* install("--trust")).code, 0)
      yield* run
      assert.deepStrictEqual(place.executed(), ["RAN"])
      const { sessions } = yield* Effect.promise(() => place.run.client.sessions.list({ query: {} }))
      const ended = sessions.filter(({ session_id }) => session_id !== place.run.session)
      assert.deepStrictEqual(
        ended.map(({ status }) => status),
        ["closed"]
      )
    })
  )

  test(
    "does not let a model write to a program that runs",
    [
      [{ tool: "exec_command", input: { cmd: "bash", tty: true, yield_time_ms: 500 } }],
      [
        {
          tool: "write_stdin",
          input: { session_id: 0, chars: "echo STDIN >> ran.txt\n", yield_time_ms: 800 }
        }
      ]
    ],
    (place, _model, run, install) =>
      Effect.gen(function* () {
        yield* rulesOf(place.run, allowAll)
        assert.strictEqual((yield* install("--user", "--trust")).code, 0)
        yield* run
        assert.deepStrictEqual(place.executed(), [])
      })
  )

  test(
    "executes nothing if the service is down, or the command is missing or killed",
    [[shell("RAN")]],
    (place, model, run, install) =>
      Effect.gen(function* () {
        assert.strictEqual((yield* install("--trust")).code, 0)
        const command = codex(place, model, place.directory)
        yield* place.exec(...withVariables(command, { COUNTERSIGN_URL: "http://127.0.0.1:9" }))
        const running = place.start(...command)
        yield* pendingApproval(place.run)
        process.kill(place.hookProcess(), "SIGKILL")
        yield* Effect.promise(() => running.ended)
        place.breakCommand()
        yield* run
        assert.deepStrictEqual(place.executed(), [])
      })
  )

  test(
    "leaves the decision for the next equal call when it is killed",
    [[shell("RAN")], [shell("RAN")]],
    (place, model, _run, install) =>
      Effect.gen(function* () {
        assert.strictEqual((yield* install("--trust")).code, 0)
        const [command, variables] = codex(place, model, place.directory)
        const running = place.start(command, variables)
        yield* pendingApproval(place.run)
        const hook = place.hookProcess()
        running.kill()
        yield* Effect.promise(() => running.ended)
        yield* eventually(
          Effect.sync(() => isRunning(hook)),
          (runs) => !runs
        )
      })
  )

  if (canMount)
    test("runs the machine's hooks without being told to trust them", [[shell("RAN")]], (place, model) =>
      Effect.gen(function* () {
        yield* rulesOf(place.run, rejectAll)
        const [command, variables] = codex(place, model, place.directory)
        appendFileSync(
          path.join(place.home, ".codex", "config.toml"),
          "[features]\nhooks = false\nunified_exec_tty = true\n"
        )
        const install = "countersign hook install codex --managed --yes >&2"
        const ended = yield* place.exec(
          withEtc(place, `${install} && ${command.map((part) => `'${part}'`).join(" ")}`),
          variables
        )
        assert.include(ended.err, "active: Codex runs the hooks")
        assert.deepStrictEqual(place.executed(), [])
        assert.include(lastResult(model), "A rule rejected this call")
      })
    )
})
