import { statements } from "./statements.ts"

/** Indexes for the examples that a version added and removed, so that comparing two versions reads only the differences. */
export default statements(
  `CREATE INDEX dataset_examples_came ON dataset_examples (org_id, task_id, first_version)`,
  `CREATE INDEX dataset_examples_went ON dataset_examples (org_id, task_id, until_version) WHERE until_version IS NOT NULL`
)
