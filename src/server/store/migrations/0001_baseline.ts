import { Effect } from "effect"
import { approvals } from "./0001_baseline/approvals.ts"
import { delivery } from "./0001_baseline/delivery.ts"
import { feedback } from "./0001_baseline/feedback.ts"
import { identity } from "./0001_baseline/identity.ts"
import { notifications } from "./0001_baseline/notifications.ts"
import { store } from "./0001_baseline/store.ts"
import { tasks } from "./0001_baseline/tasks.ts"
import { telemetry } from "./0001_baseline/telemetry.ts"
import { tables } from "./statements.ts"

/** The schema of 1.0.0, a file for each area. It is released: changes of the schema are further migrations. */
export default Effect.forEach(
  [identity, approvals, notifications, delivery, tasks, feedback, telemetry, store],
  tables,
  {
    discard: true
  }
)
