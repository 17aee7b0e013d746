import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { VERSION } from "../../src/domain/Version.ts"
import { cli } from "../support/cli.ts"

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
