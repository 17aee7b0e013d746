import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { createHmac } from "node:crypto"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { verificationSnippets } from "../../../../src/console/pages/endpoints/verificationSnippets.ts"

const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`
const body = '{"id":"evt_1","type":"test","note":"é €"}'

const sign = (time: number, key = secret) =>
  `v1=${createHmac("sha256", key).update(`${time}.${body}`).digest("hex")}`

/** Signature headers, and whether each verifies. */
const cases = (): ReadonlyArray<readonly [string, boolean]> => {
  const now = Math.floor(Date.now() / 1000)
  return [
    [`t=${now},${sign(now)}`, true],
    // During a rotation, the other secret signs as well.
    [`t=${now},${sign(now, "another")},${sign(now)}`, true],
    [`t=${now},${sign(now, "another")}`, false],
    [`t=${now - 1},${sign(now)}`, false],
    [`t=${now - 400},${sign(now - 400)}`, false],
    [`t=,${sign(now)}`, false],
    ["", false],
    ["t=abc,v1=zz", false]
  ]
}

/** Runs a program in a directory with these files. Returns its output. */
const run = (files: Readonly<Record<string, string>>, command: string, args: ReadonlyArray<string>) => {
  const directory = mkdtempSync(join(tmpdir(), "snippet-"))
  try {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text)
    return execFileSync(command, args, {
      cwd: directory,
      input: JSON.stringify({ body, secret, headers: cases().map(([header]) => header) }),
      encoding: "utf8",
      env: process.env
    }).trim()
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

const isInstalled = (command: string, ...args: ReadonlyArray<string>): boolean => {
  try {
    execFileSync(command, args, { stdio: "ignore" })
    return true
  } catch {
    process.stderr.write(
      `Skipping the verification snippet that needs \`${command}\`: it is not installed.\n`
    )
    return false
  }
}

const expected = cases()
  .map(([, verifies]) => String(verifies))
  .join(" ")

describe("the verification snippets of the console", () => {
  it("in TypeScript accept what the service signs, and nothing else; the documents show the same", () => {
    const { code } = verificationSnippets.typescript
    const answer = run(
      {
        "webhook.ts": code,
        "main.ts": `import { readFileSync } from "node:fs"
import { isSigned } from "./webhook.ts"
const { body, headers, secret } = JSON.parse(readFileSync(0, "utf8"))
console.log(headers.map((header) => isSigned(Buffer.from(body), header, secret)).join(" "))
`
      },
      process.execPath,
      ["--no-warnings", "main.ts"]
    )
    assert.strictEqual(answer, expected)
    const withoutComment = code.replace(/\/\*\*.*\*\/\n/, "")
    assert.include(readFileSync("docs/webhooks.md", "utf8"), withoutComment)
  })

  it.skipIf(!isInstalled("python3", "--version"))(
    "in Python accept what the service signs, and nothing else",
    () => {
      const answer = run(
        {
          "webhook.py": verificationSnippets.python.code,
          "main.py": `import json, sys
from webhook import is_signed
given = json.load(sys.stdin)
print(" ".join(str(is_signed(given["body"].encode(), header, given["secret"])).lower() for header in given["headers"]))
`
        },
        "python3",
        ["main.py"]
      )
      assert.strictEqual(answer, expected)
    }
  )

  it.skipIf(!isInstalled("go", "version"))(
    "in Go accept what the service signs, and nothing else",
    () => {
      const answer = run(
        {
          "go.mod": "module example.com/main\n\ngo 1.20\n",
          "webhook.go": verificationSnippets.go.code.replace("package webhook", "package main"),
          "main.go": `package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	var given struct {
		Body    string
		Secret  string
		Headers []string
	}
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		panic(err)
	}
	for i, header := range given.Headers {
		if i > 0 {
			fmt.Print(" ")
		}
		fmt.Print(IsSigned([]byte(given.Body), header, given.Secret))
	}
}
`
        },
        "go",
        ["run", "."]
      )
      assert.strictEqual(answer, expected)
    },
    300_000
  )

  it.skipIf(!isInstalled("javac", "--version"))(
    "in Java accept what the service signs, and nothing else",
    () => {
      // The JDK has no parser of JSON: the program gets the values as literals.
      const text = (value: string) => JSON.stringify(value)
      const answer = run(
        {
          "Main.java": `${verificationSnippets.java.code.replace("public final class Webhook", "final class Webhook")}
class Main {
  public static void main(String[] arguments) throws Exception {
    var results = new java.util.ArrayList<String>();
    for (var header : new String[] {${cases()
      .map(([header]) => text(header))
      .join(", ")}}) {
      results.add(String.valueOf(Webhook.isSigned(
          ${text(body)}.getBytes(StandardCharsets.UTF_8), header, ${text(secret)})));
    }
    System.out.println(String.join(" ", results));
  }
}
`
        },
        "sh",
        ["-c", "javac -encoding UTF-8 Main.java && java Main"]
      )
      assert.strictEqual(answer, expected)
    },
    120_000
  )
})
