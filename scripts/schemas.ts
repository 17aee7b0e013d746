/**
 * Compares how the service validates with JSON Schema 2020-12: runs the official JSON-Schema-Test-Suite, and random
 * schemas and values against a second validator (`npm run schemas`). Fails if a value is judged differently and the
 * schema has no warning. Installs the suite and the second validator below node_modules/.cache first; a part that
 * this machine cannot have is skipped with its reason. With `--installed`, as `npm run verify` runs it, nothing is
 * installed.
 *
 * `--schemas N` is the number of random schemas, `--seed N` repeats a run, `--suite FOLDER` uses another copy of the
 * suite.
 */
import path from "node:path"
import { fileURLToPath } from "node:url"
import { fuzz } from "./schemas/fuzz.ts"
import { prepareSuite, prepareValidator } from "./schemas/install.ts"
import { runSuite } from "./schemas/suite.ts"
import { parseOptions } from "./parseOptions.ts"

const directory = fileURLToPath(new URL("../node_modules/.cache/schemas", import.meta.url))

const { values } = parseOptions(import.meta.filename, {
  options: {
    installed: { type: "boolean", default: false },
    schemas: { type: "string", default: "1000" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    suite: { type: "string" }
  }
})

const say = (line: string) => process.stdout.write(`${line}\n`)

const mayInstall = !values.installed
const suite = values.suite ?? path.join(directory, "suite")
const noSuite = values.suite === undefined ? prepareSuite(suite, mayInstall) : undefined
const noValidator = prepareValidator(directory, mayInstall)

let wrong = 0
if (noSuite === undefined) wrong += runSuite(path.join(suite, "tests", "draft2020-12"), say)
else say(`test suite: skipped, ${noSuite}`)
if (noValidator === undefined) {
  wrong += await fuzz({ directory, runs: Number(values.schemas), seed: Number(values.seed), say })
} else say(`second validator: skipped, ${noValidator}`)
if (wrong > 0) process.exitCode = 1
