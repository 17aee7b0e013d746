import { statements } from "./statements.ts"

/** What came with a version and what went with it, so that two versions are told apart by what differs, not by reading the dataset. */
export default statements(
  `CREATE INDEX dataset_examples_came ON dataset_examples (org_id, task_id, first_version)`,
  `CREATE INDEX dataset_examples_went ON dataset_examples (org_id, task_id, until_version) WHERE until_version IS NOT NULL`
)
