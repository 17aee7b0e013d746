import { assert, describe, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { root } from "../../../scripts/deploy/chartTools.ts"
import { nodeFlags } from "../../../scripts/nodeFlags.js"
import { variableNames, variables } from "../../../src/server/config/Settings/variables.ts"

const file = path.join(root, "scripts", "deploy", "systemd", "countersign.service")
const text = readFileSync(file, "utf8")

/** The values of a directive, in order. */
const valuesOf = (name: string) =>
  text
    .split("\n")
    .filter((line) => line.startsWith(`${name}=`))
    .map((line) => line.slice(name.length + 1))

/** The lines of a section. */
const sectionOf = (name: string) => text.split(`[${name}]\n`)[1]?.split(/^\[/m)[0] ?? ""

describe("the systemd unit", () => {
  it("restarts the service without limit, every few seconds, as the NixOS module does", () => {
    // By systemd's default, a unit that fails 5 times in 10 seconds stays failed, even if the database is back a minute later.
    assert.match(sectionOf("Unit"), /^StartLimitIntervalSec=0$/m)
    assert.match(sectionOf("Service"), /^Restart=always$/m)
    assert.deepStrictEqual(valuesOf("RestartSec"), ["5"])
    const module = readFileSync(path.join(root, "nix", "module.nix"), "utf8")
    assert.match(module, /^ {6}startLimitIntervalSec = 0;$/m)
  })

  it("starts the service with the flags of npm start, and loads secrets as credentials of their names", () => {
    assert.include(valuesOf("ExecStart")[0], ` ${nodeFlags.join(" ")} /opt/`)
    const credentials = valuesOf("LoadCredential").map((value) => value.split(":"))
    assert.isAbove(credentials.length, 1)
    for (const [name, place] of credentials) {
      const known = variableNames.find((one) => one === name)
      assert.isTrue(known !== undefined && variables[known].secret, name)
      assert.strictEqual(place, `/etc/countersign/credentials/${name}`)
    }
    for (const assignment of valuesOf("Environment")) {
      const [name = ""] = assignment.split("=")
      const known = variableNames.find((one) => one === name)
      assert.isTrue(name === "NODE_ENV" || (known !== undefined && !variables[known].secret), name)
    }
  })

  it("confines the service as the NixOS module does", () => {
    const module = readFileSync(path.join(root, "nix", "module.nix"), "utf8")
    // `Name = true;`, `Name = 5;` and `Name = "text";` of serviceConfig.
    const [, serviceConfig = ""] = module.split("serviceConfig = {")
    const settings = [...serviceConfig.matchAll(/^ {8}([A-Z][A-Za-z]+) = (?:(true)|(\d+)|"([^"]*)");$/gm)]
    assert.isAbove(settings.length, 25)
    const own = new Set(["User", "WorkingDirectory"])
    for (const [, name = "", flag, number, value] of settings) {
      if (own.has(name)) continue
      assert.deepStrictEqual(valuesOf(name), [flag === undefined ? (number ?? value ?? "") : "yes"], name)
    }
  })

  const analyze = spawnSync("systemd-analyze", ["--version"], { encoding: "utf8" })
  const missing = analyze.status === 0 ? undefined : "systemd-analyze is not installed"
  if (missing !== undefined) process.stdout.write(`the systemd unit is not verified: ${missing}\n`)

  it.skipIf(missing !== undefined)(
    "passes systemd-analyze verify, and is exposed at most by 1.5 of 10",
    () => {
      const folder = mkdtempSync(path.join(tmpdir(), "countersign-unit-"))
      try {
        // The program need not be at this place on the machine of the test.
        const unit = path.join(folder, "countersign.service")
        writeFileSync(unit, text.replace("ExecStart=/usr/bin/node", "ExecStart=/bin/sh"))
        const run = (...args: ReadonlyArray<string>) =>
          spawnSync("systemd-analyze", args, { encoding: "utf8" })
        const verified = run("verify", unit)
        assert.strictEqual(verified.stderr + verified.stdout, "")
        assert.strictEqual(verified.status, 0)
        writeFileSync(unit, text.replace("ProtectSystem=strict", "ProtectSystem=sometimes"))
        assert.match(run("verify", unit).stderr, /protect ?system/i)
        assert.strictEqual(run("security", "--offline=true", "--threshold=15", file).status, 0)
        assert.notStrictEqual(run("security", "--offline=true", "--threshold=5", file).status, 0)
      } finally {
        rmSync(folder, { recursive: true })
      }
    }
  )
})
