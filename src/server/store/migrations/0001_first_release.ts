import { Effect } from "effect"
import { approvals } from "./0001_first_release/approvals.ts"
import { delivery } from "./0001_first_release/delivery.ts"
import { feedback } from "./0001_first_release/feedback.ts"
import { identity } from "./0001_first_release/identity.ts"
import { notifications } from "./0001_first_release/notifications.ts"
import { store } from "./0001_first_release/store.ts"
import { tasks } from "./0001_first_release/tasks.ts"
import { telemetry } from "./0001_first_release/telemetry.ts"
import { tables } from "./statements.ts"

/** The schema of 1.0.0, a file for each area. It is released: changes of the schema are further migrations. */
export default Effect.forEach(
  [identity, approvals, notifications, delivery, tasks, feedback, telemetry, store],
  tables,
  {
    discard: true
  }
)
