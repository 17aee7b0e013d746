import { statements } from "./statements.ts"

/**
 * Turns off the pending list of the GIN index on rare words. With the list, which is the default, every look-up scans
 * the pending entries one by one, until an insert finds the list full (4 MiB) and merges all of it into the index: a
 * version of ten corrections would then pay for all inserts before it. Imports are as fast as before, because one
 * statement inserts hundreds of examples.
 */
export default statements(
  `ALTER INDEX dataset_examples_telling SET (fastupdate = off)`,
  `SELECT gin_clean_pending_list('dataset_examples_telling')`
)
