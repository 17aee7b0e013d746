import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { curlCommand } from "../../../src/console/ui/curlCommand.ts"

/** The arguments that a shell gives to `curl`. */
const argumentsOf = (command: string): ReadonlyArray<string> =>
  execFileSync("sh", [
    "-c",
    `curl() { printf '%s\\0' "$@"; }\nCOUNTERSIGN_API_KEY=secret\nRUN="a'b"\n${command}`
  ])
    .toString()
    .split("\0")
    .slice(0, -1)

const origin = "https://example.com"

describe("A curl command", () => {
  it("keeps every character of a body from the shell", () => {
    const body = { text: `it's "$HOME" \`id\` $(id) \\ !! $RUN\n` }
    assert.deepStrictEqual(argumentsOf(curlCommand({ origin, path: "/v1/a", method: "POST", body })), [
      "-X",
      "POST",
      "https://example.com/v1/a",
      "-H",
      "Authorization: Bearer secret",
      "-H",
      "Content-Type: application/json",
      "-d",
      JSON.stringify(body)
    ])
  })

  it("replaces the variables that it is given, and no others", () => {
    const body = { id: "$RUN", text: "$RUNS $HOME" }
    const given = argumentsOf(
      curlCommand({ origin, path: "/v1/$RUN/steps", method: "POST", body, variables: ["RUN"] })
    )
    assert.strictEqual(given[2], "https://example.com/v1/a'b/steps")
    assert.strictEqual(given.at(-1), `{"id":"a'b","text":"$RUNS $HOME"}`)
  })
})
