import type { ReactNode } from "react"
import type { Reviewer } from "../../../domain/approvals/Reviewer.ts"
import { bandAt } from "../../../domain/approvals/Reviewer/amountBand.ts"
import { navigate } from "../../app/router.tsx"
import { apiClient } from "../../state/apiClient.ts"
import { refreshReviewers } from "../../state/reviewers.ts"
import { useCan } from "../../state/session.ts"
import { ConfirmButton } from "../../ui/ConfirmButton.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { TaskLink } from "../tasks/TaskLink.tsx"
import { bandText } from "./reviewerTexts.ts"

/** What a reviewer model is asked about, what it may use today, and what can be done with it. */
export const ReviewerSettings = ({ reviewer }: { readonly reviewer: Reviewer }) => {
  const { amount, created_at, created_by, daily_calls, daily_tokens, failures, task_id, tools, used } =
    reviewer
  const can = useCan()
  return (
    <section className="card padded stack" aria-labelledby="settings">
      <div className="change-head">
        <h2 id="settings">Settings and use</h2>
        <div className="row-actions">
          {can("datasets.write") ? (
            <ConfirmButton
              kind="plain"
              label="Learn from people"
              title="Make examples of people’s decisions?"
              confirmLabel="Make examples"
              act={() => apiClient.reviewers.promote({ params: { task_id }, payload: {} })}
              onDone={(dataset) =>
                showToast(`Version ${dataset.version} of its examples`, {
                  label: "View",
                  act: () => navigate(`/datasets/${dataset.id}`)
                })
              }
            >
              <p>
                The newest decisions of people on its tools become a version of its dataset, with their
                comments as reasons. The first version is used at once, a later one after a comparison and a
                release. A release with other examples has to earn the right again.
              </p>
            </ConfirmButton>
          ) : null}
          {can("data.delete") ? (
            <ConfirmButton
              label="Delete"
              title="Delete this reviewer?"
              act={() => apiClient.reviewers.remove({ params: { task_id } })}
              onDone={() => {
                showToast("Reviewer deleted")
                refreshReviewers()
                navigate("/reviewers")
              }}
            >
              <p>
                Its task, its answers and its examples are deleted, and its rules ask people. This cannot be
                undone.
              </p>
            </ConfirmButton>
          ) : null}
        </div>
      </div>
      <dl className="facts">
        <Fact name="Calls today">
          <Use used={used.calls} limit={daily_calls} label="Calls today" />
        </Fact>
        <Fact name="Tokens today">
          <Use used={used.tokens} limit={daily_tokens} label="Tokens today" />
          {used.used_up ? (
            <p className="failing">
              A limit is used up: it is not asked before midnight (UTC), also not later about the steps of
              this time.
            </p>
          ) : null}
        </Fact>
        {failures === 0 ? null : (
          <Fact name="Failures">
            <span className="failing">
              The last {failures === 1 ? "request" : `${failures} requests`} got no answer.
            </span>
          </Fact>
        )}
        <Fact name="Tools">
          <UntrustedText text={tools.join(", ")} />
        </Fact>
        <Fact name="Amount">
          {amount === null ? (
            <span className="quiet">not told apart</span>
          ) : (
            <>
              <UntrustedText text={amount.pointer} />:{" "}
              {Array.from({ length: amount.bounds.length + 1 }, (_, band) =>
                bandText(bandAt(amount, band))
              ).join("; ")}
            </>
          )}
        </Fact>
        <Fact name="Task">
          <TaskLink id={task_id} />
        </Fact>
        <Fact name="Release">
          <span className="id">{reviewer.release_id}</span>
        </Fact>
        <Fact name="Created">
          <AbsoluteTime time={created_at} /> by <UntrustedText text={created_by.name} />
        </Fact>
      </dl>
    </section>
  )
}

const Fact = ({ children, name }: { readonly name: string; readonly children: ReactNode }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
)

const Use = ({
  label,
  limit,
  used
}: {
  readonly label: string
  readonly used: number
  readonly limit: number
}) => (
  <span className="use">
    <meter aria-label={label} min={0} max={Math.max(1, limit)} value={Math.min(used, Math.max(1, limit))} />{" "}
    {used.toLocaleString("en")} of {limit.toLocaleString("en")}
  </span>
)
