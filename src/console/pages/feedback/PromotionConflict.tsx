import { Button } from "../../ui/Button.tsx"
import type { Failure } from "../../ui/Failure.ts"

/** Whether a promotion was rejected because the dataset or the staged corrections changed after the preview. */
export const isPromotionConflict = (failure: Failure | undefined): boolean =>
  failure?.code === "DATASET_BASE_CHANGED" || failure?.code === "FEEDBACK_CHANGED"

/** Explains what changed after the preview, with a button that reloads it. */
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
        ? "The dataset has a newer version than this preview"
        : "The staged corrections changed after this preview"}
    </p>
    <p>
      {failure?.code === "DATASET_BASE_CHANGED"
        ? "Someone created a dataset version in the meantime, so the preview below is out of date. Nothing was promoted."
        : "Someone staged or rejected a correction in the meantime, so the preview below is out of date. Nothing was promoted."}
    </p>
    <div className="notice-actions">
      <Button small kind="primary" onClick={onReload}>
        Reload and review
      </Button>
    </div>
  </div>
)
