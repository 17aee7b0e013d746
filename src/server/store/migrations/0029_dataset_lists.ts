import { statements } from "./statements.ts"

/** Versions are listed by their numbers, which `datasets_version` holds. */
export default statements(`DROP INDEX datasets_task`)
