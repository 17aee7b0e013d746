import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { VERSION } from "../../src/domain/Version.ts"
import { cli } from "../support/cli.ts"

/** What an interactive shell makes of a line after the tab key, in a directory with `wallet/`, `wall.txt` and `odd name.jsonl`. */
const completers = {
  bash: (script: string, line: string, cwd: string) => {
    // Without a terminal, readline prints the edited line to stderr. The shell runs the line at its end: the command does nothing in it.
    const { stderr } = spawnSync("bash", ["--norc", "-i"], {
      cwd,
      encoding: "utf8",
      env: { PATH: process.env["PATH"], PS1: "", INPUTRC: "/dev/null", TERM: "dumb" },
      input: `countersign() { :; }\nsource ${script}\n${line}\t\n`
    })
    return stderr.split("\n").findLast((one) => one.startsWith("countersign ")) ?? stderr
  },
  zsh: (script: string, line: string, cwd: string) =>
    execFileSync("zsh", ["-f", "-c", ZSH, "zsh", script, line], { cwd, encoding: "utf8" }).trimEnd(),
  fish: (script: string, line: string, cwd: string) => {
    const words = execFileSync(
      "fish",
      ["--no-config", "-c", "source $argv[1]; complete -C $argv[2]", script, line],
      {
        cwd,
        encoding: "utf8",
        env: { PATH: process.env["PATH"], HOME: cwd }
      }
    )
    // The words that may replace the last one, each with its description.
    const [word = ""] = words.split("\n").map((one) => one.split("\t")[0] ?? "")
    return line.replace(/\S*$/, word.replaceAll(" ", "\\ "))
  }
}

/** Starts an interactive zsh in a pseudo terminal, types a line and the tab key, and prints the edited line. */
const ZSH = `
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'autoload -Uz compinit; compinit -D -u; source '\${(q)1}'; show() { print -r -- "LINE<$BUFFER>" }; zle -N show; bindkey "^X" show; print READ""Y'
zpty -r shell output '*READY*'
zpty -n -w shell "$2"$'\\t\\x18'
zpty -r shell output '*LINE<*>*'
print -r -- "\${\${output##*LINE<}%%>*}"
zpty -d shell
`

const isInstalled = (shell: string) => spawnSync(shell, ["--version"]).status === 0

for (const shell of ["bash", "zsh", "fish"] as const) {
  const missing = !isInstalled(shell)
  if (missing) process.stdout.write(`completion in ${shell} is not tested: ${shell} is not installed\n`)

  describe.skipIf(missing)(`countersign completion ${shell}`, () => {
    it.effect(
      "completes directories, files, levels of the log and commands in an interactive shell",
      () =>
        Effect.gen(function* () {
          const { out } = yield* cli(["completion", shell])
          const directory = mkdtempSync(path.join(tmpdir(), "completion-"))
          try {
            const script = path.join(directory, "script")
            writeFileSync(script, out)
            const cwd = path.join(directory, "cwd")
            mkdirSync(path.join(cwd, "wallet"), { recursive: true })
            writeFileSync(path.join(cwd, "wall.txt"), "")
            writeFileSync(path.join(cwd, "odd name.jsonl"), "")
            const completed = (line: string) => completers[shell](script, line, cwd).trimEnd()
            const expected = {
              // A completed directory ends with a slash, to go on with.
              "countersign backup --to walle": "countersign backup --to wallet/",
              ...(shell === "fish"
                ? {}
                : { "countersign backup --to wal": "countersign backup --to wallet/" }),
              "countersign restore --from ./walle": "countersign restore --from ./wallet/",
              "countersign audit verify wall.": "countersign audit verify wall.txt",
              "countersign datasets import --task tsk_1 odd": String.raw`countersign datasets import --task tsk_1 odd\ name.jsonl`,
              "countersign support-bundle --log wall.": "countersign support-bundle --log wall.txt",
              "countersign rules diff --key-file wall.": "countersign rules diff --key-file wall.txt",
              "countersign backup --log-level deb": "countersign backup --log-level debug",
              "countersign --log-level deb": "countersign --log-level debug",
              // Fish takes the word after a flag before a command for the command.
              ...(shell === "fish"
                ? {}
                : { "countersign --log-level debug doc": "countersign --log-level debug doctor" }),
              "countersign hook install cla": "countersign hook install claude-code"
            }
            for (const [line, whole] of Object.entries(expected)) assert.strictEqual(completed(line), whole)
          } finally {
            rmSync(directory, { recursive: true })
          }
        }),
      60_000
    )
  })
}

describe("countersign completion", () => {
  it.effect("prints a script that completes commands and flags in bash", () =>
    Effect.gen(function* () {
      const { ok, out } = yield* cli(["completion", "bash"])
      assert.isTrue(ok)
      const complete = (line: string) =>
        execFileSync("bash", ["--norc", "-c", `${out}\n${line}`], { encoding: "utf8" })
      const [declaration] = complete("complete -p countersign").trim().split("\n")
      const name = /-F (\S+)/.exec(declaration ?? "")?.[1]
      const answer = complete(
        `COMP_WORDS=(countersign do); COMP_CWORD=1; COMP_LINE="countersign do"; COMP_POINT=14; ${name} countersign do countersign; echo "\${COMPREPLY[@]}"`
      )
      assert.include(answer, "doctor")
    })
  )

  it.effect("leaves paths to the shell's own completion", () =>
    Effect.gen(function* () {
      const { out } = yield* cli(["completion", "bash"])
      const declaration = execFileSync("bash", ["--norc", "-c", `${out}\ncomplete -p countersign`], {
        encoding: "utf8"
      })
      assert.match(declaration, /^complete -o default -F /)
      assert.match((yield* cli(["completion", "zsh"])).out, /--master-key-to\[.+\]:file:_files'$/m)
      // -F: the value is a file.
      assert.match((yield* cli(["completion", "fish"])).out, /from restore;.+ -l from .+ -r -F$/m)
    })
  )

  it.effect("prints scripts for zsh and fish, and refuses other shells", () =>
    Effect.gen(function* () {
      assert.include((yield* cli(["completion", "zsh"])).out, "#compdef countersign")
      assert.include((yield* cli(["completion", "fish"])).out, "complete -c countersign")
      assert.isFalse((yield* cli(["completion", "tcsh"])).ok)
    })
  )
})

describe("countersign --version", () => {
  it.effect("prints the version", () =>
    Effect.gen(function* () {
      const { ok, out } = yield* cli(["--version"])
      assert.isTrue(ok)
      assert.include(out, VERSION)
    })
  )
})
