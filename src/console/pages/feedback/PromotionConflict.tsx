import { Button } from "../../ui/Button.tsx"
import type { Failure } from "../../ui/Failure.ts"

/** Whether a promotion was refused since what it was made from has changed. */
export const isPromotionConflict = (failure: Failure | undefined): boolean =>
  failure?.code === "DATASET_BASE_CHANGED" || failure?.code === "FEEDBACK_CHANGED"

/** What has changed since the preview, and the way to review it. */
export const PromotionConflict = ({
  failure,
  onReload
}: {
  readonly failure: Failure | undefined
  readonly onReload: () => void
}) => (
  <div className="notice warn" role="alert">
    <p className="notice-title">
      {failure?.code === "DATASET_BASE_CHANGED"
        ? "The dataset has a newer version since this preview"
        : "The staged corrections have changed since this preview"}
    </p>
    <p>
      {failure?.code === "DATASET_BASE_CHANGED"
        ? "Somebody made a version in between, so what would be added and replaced is no longer what you read here. Nothing was promoted."
        : "Somebody staged or rejected a correction in between, so promoting would take in what you have not read. Nothing was promoted."}
    </p>
    <div className="notice-actions">
      <Button small kind="primary" onClick={onReload}>
        Reload and review
      </Button>
    </div>
  </div>
)
