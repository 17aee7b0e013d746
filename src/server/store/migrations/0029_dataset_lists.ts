import { statements } from "./statements.ts"

/** Versions are listed by number, with the index `datasets_version`. */
export default statements(`DROP INDEX datasets_task`)
