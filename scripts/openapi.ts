/** Writes `openapi.json` from the contract; with `--check` fails where the file differs from it. */
import { readFileSync, writeFileSync } from "node:fs"
import { openApiDocument } from "../src/api/openApiDocument.ts"
import { format } from "./format.ts"

const path = new URL("../openapi.json", import.meta.url)
const text = await format("openapi.json", JSON.stringify(openApiDocument()))

if (process.argv.includes("--check")) {
  let committed = ""
  try {
    committed = readFileSync(path, "utf8")
  } catch {
    // A missing file differs from any document.
  }
  if (committed !== text) {
    console.error("openapi.json differs from the contract: run `node scripts/openapi.ts` and commit it")
    process.exit(1)
  }
} else {
  writeFileSync(path, text)
  console.log(`openapi.json: ${text.length} bytes`)
}
