import { countersign } from "./cli/countersign.ts"
import { run } from "./cli/run.ts"

run(countersign(process.argv.slice(2)))
