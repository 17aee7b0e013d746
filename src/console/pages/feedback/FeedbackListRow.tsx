import type { FeedbackRow } from "../../../api/console/FeedbackRows.ts"
import type { FeedbackId } from "../../../domain/Ids.ts"
import { openInNewTab } from "../../app/router.tsx"
import { Badge } from "../../ui/Badge.tsx"
import { RowCheckbox } from "../../ui/selection/RowCheckbox.tsx"
import type { SelectedRows } from "../../ui/selection/useSelection.ts"
import { summarizeJson, summarizeJsonStart } from "../../ui/summarizeJson.ts"
import { RelativeTime } from "../../ui/Time.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { GivenBy } from "./GivenBy.tsx"
import { NotCounted, ScoreLabel } from "./Judgement.tsx"
import { judgementText } from "./scoreText.ts"

/** A row of the feedback queue: task, judgement, the start of the input and of the correction. */
export const FeedbackListRow = ({
  onSelect,
  record,
  selected,
  selection
}: {
  readonly record: FeedbackRow
  /** Whether it is open. */
  readonly selected: boolean
  /** Undefined: rows of this list are not selected for an action. */
  readonly selection: SelectedRows<FeedbackId> | undefined
  readonly onSelect: (id: FeedbackId) => void
}) => (
  <li
    className={selection === undefined ? "feedback-row" : "feedback-row selectable"}
    data-marked={selection?.ids.has(record.id) === true ? "" : undefined}
    data-open={selected ? "" : undefined}
  >
    {selection === undefined ? null : (
      <RowCheckbox
        id={record.id}
        label={`feedback on ${record.task_name}, by ${record.created_by.name}`}
        selection={selection}
      />
    )}
    <button
      type="button"
      className="feedback-row-button"
      aria-current={selected ? "true" : undefined}
      onClick={({ ctrlKey, metaKey }) =>
        ctrlKey || metaKey ? openInNewTab(`/feedback/${record.id}`) : onSelect(record.id)
      }
    >
      <span className="row-main">
        <span className="feedback-row-task">
          <UntrustedText text={record.task_name} />
        </span>
        <span className="feedback-row-judgement">
          {judgementText(record)} <ScoreLabel record={record} /> <NotCounted record={record} />
        </span>
      </span>
      <span className="feedback-row-text">
        <span className="feedback-row-name">Input</span>
        {record.input_start === null ? (
          <span className="quiet">large</span>
        ) : (
          <UntrustedText text={summarizeJsonStart(record.input_start)} />
        )}
      </span>
      {record.correction === null && record.comment === null ? null : (
        <span className="feedback-row-text">
          <span className="feedback-row-name">{record.correction === null ? "Comment" : "Correction"}</span>
          <UntrustedText
            text={
              record.correction === null
                ? (record.comment ?? "")
                : summarizeJson(record.correction).join(" · ")
            }
          />
        </span>
      )}
      <span className="row-more">
        by <GivenBy record={record} /> · <RelativeTime time={record.created_at} />
        {record.redaction_warning === undefined ? null : <Badge tone="wait">Redacted</Badge>}
      </span>
    </button>
  </li>
)
