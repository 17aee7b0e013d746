/**
 * Writes the parts of the promise client that follow from the contract: `src/client/connect/Operations.ts` (the types
 * of operations, with the texts of the API reference) and `src/client/connect/operationTable.ts` (the data that the
 * client needs at run time). With `--check` it writes nothing and fails if one is out of date.
 */
import { readFileSync, writeFileSync } from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { format, resolveConfig } from "prettier"
import { tableModule } from "./tableModule.ts"
import { typesModule } from "./typesModule.ts"

const folder = fileURLToPath(new URL("../../src/client/connect", import.meta.url))
const files = { "Operations.ts": typesModule(), "operationTable.ts": tableModule() }

for (const [name, source] of Object.entries(files)) {
  const file = path.join(folder, name)
  const text = await format(source, { ...(await resolveConfig(file)), filepath: file })
  if (!process.argv.includes("--check")) {
    writeFileSync(file, text)
    console.log(`${name}: ${text.length} bytes`)
  } else if (readFileSync(file, "utf8") !== text) {
    console.error(`${name} differs from the contract: run \`node scripts/client/generate.ts\` and commit it`)
    process.exitCode = 1
  }
}
