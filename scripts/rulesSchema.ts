/** Writes the JSON Schema of rules files from the contract; with `--check` fails where the file differs from it. */
import { readFileSync, writeFileSync } from "node:fs"
import { format } from "prettier"
import { RULES_SCHEMA_FILE, rulesFileJsonSchema } from "../src/api/RulesFile.ts"

const path = new URL(`../${RULES_SCHEMA_FILE}`, import.meta.url)
const text = await format(JSON.stringify(rulesFileJsonSchema()), { parser: "json", printWidth: 110 })

if (process.argv.includes("--check")) {
  let committed = ""
  try {
    committed = readFileSync(path, "utf8")
  } catch {
    // A missing file differs from any schema.
  }
  if (committed !== text) {
    console.error(
      `${RULES_SCHEMA_FILE} differs from the contract: run \`node scripts/rulesSchema.ts\` and commit it`
    )
    process.exit(1)
  }
} else {
  writeFileSync(path, text)
  console.log(`${RULES_SCHEMA_FILE}: ${text.length} bytes`)
}
