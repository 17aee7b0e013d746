/**
 * Writes the files that follow from the contract and are not committed: the types of the operations of `connect`, with the texts of the API
 * reference; the data that it needs at run time; the JSON Schema of rules files. `scripts/setup.js` runs it after the sources changed.
 */
import { mkdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { RULES_SCHEMA_FILE, rulesFileJsonSchema } from "../src/api/RulesFile.ts"
import { tableModule } from "./client/tableModule.ts"
import { typesModule } from "./client/typesModule.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
const connect = path.join(root, "src", "client", "connect", "generated")

// Each text is complete before a file changes.
const files = [
  [path.join(connect, "Operations.ts"), typesModule()],
  [path.join(connect, "operationTable.ts"), tableModule()],
  [path.join(root, RULES_SCHEMA_FILE), `${JSON.stringify(rulesFileJsonSchema(), undefined, 2)}\n`]
] as const

mkdirSync(connect, { recursive: true })
for (const [file, text] of files) writeFileSync(file, text)
