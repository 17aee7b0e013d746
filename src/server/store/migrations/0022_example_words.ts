import { statements } from "./statements.ts"

/**
 * The words of examples go into their index as they come. Kept in a list first, as is the default, they are read one by one by every
 * look-up until some version, of ten corrections perhaps, finds the list full and sorts in the 4 MiB of all before it. Imports
 * are as fast as before: they write hundreds of examples by one statement.
 */
export default statements(
  `ALTER INDEX dataset_examples_telling SET (fastupdate = off)`,
  `SELECT gin_clean_pending_list('dataset_examples_telling')`
)
