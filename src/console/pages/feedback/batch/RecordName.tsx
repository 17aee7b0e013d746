import type { FeedbackRow } from "../../../../api/console/FeedbackRows.ts"
import { summarizeJsonStart } from "../../../ui/summarizeJson.ts"
import { UntrustedText } from "../../../ui/UntrustedText.tsx"

/** What tells a correction from others: its task and input. */
export const RecordName = ({ record: { input_start, task_name } }: { readonly record: FeedbackRow }) => (
  <>
    <UntrustedText text={task_name} />{" "}
    <span className="quiet">
      <UntrustedText text={input_start === null ? "large input" : summarizeJsonStart(input_start)} />
    </span>
  </>
)
