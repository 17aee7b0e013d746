import { Option, Schema } from "effect"
import { AsyncResult } from "effect/reactivity"
import type { ApprovalRules } from "../../../api/ApprovalRules.ts"
import type { Reviewer as ReviewerModel, ReviewerFigures } from "../../../domain/approvals/Reviewer.ts"
import { describeStop } from "../../../domain/approvals/Reviewer/describeStop.ts"
import { TaskId } from "../../../domain/Ids.ts"
import { usePageTitle } from "../../app/PageTitle.tsx"
import { Link, navigate } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { refreshAlerts } from "../../state/alerts.ts"
import { apiClient } from "../../state/apiClient.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { useKeptDialog } from "../../state/keptWork.ts"
import { answersAtom, refreshReviewers, reviewerAtom } from "../../state/reviewers.ts"
import { rulesAtom } from "../../state/rules.ts"
import { useCan } from "../../state/session.ts"
import { useRefreshing } from "../../state/useRefreshing.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { CopyRecord } from "../../ui/CopyRecord.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { AbsoluteTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { useAction } from "../../ui/useAction.ts"
import { AnswerList } from "./AnswerList.tsx"
import { EditReviewer } from "./EditReviewer.tsx"
import { Figures } from "./Figures.tsx"
import { DecidingRules } from "./DecidingRules.tsx"
import { ReviewerSettings } from "./ReviewerSettings.tsx"
import { stateOf } from "./reviewerTexts.ts"
import { rulesOf, termsOfRules } from "./termsOfRules.ts"

/** How often the figures are read again. */
const REFRESH_MS = 15_000

const isTaskId = Schema.is(TaskId)

/** One reviewer model: its figures, its answers beside people's decisions, and the rules that let it decide. */
export default function Reviewer({ params }: PageProps) {
  const id = params["id"]
  return isTaskId(id) ? <WithRules id={id} tab={params["tab"]} /> : <EmptyState title="Reviewer not found" />
}

const WithRules = (props: { readonly id: TaskId; readonly tab: string | undefined }) => (
  <AsyncContent atom={rulesAtom}>{(rules) => <LoadedReviewer {...props} rules={rules} />}</AsyncContent>
)

const tabs = [
  ["figures", "Figures"],
  ["disagreements", "Disagreements"],
  ["review", "To look at"],
  ["answers", "All answers"]
] as const
type Tab = (typeof tabs)[number][0]

const LoadedReviewer = ({
  id,
  rules,
  tab: wanted
}: {
  readonly id: TaskId
  readonly rules: ApprovalRules
  readonly tab: string | undefined
}) => {
  const atom = reviewerAtom({ task_id: id, terms: termsOfRules(rules.rules, id) })
  const result = useAtomValue(atom)
  useRefreshing(atom, true, REFRESH_MS)
  const reviewer = Option.getOrUndefined(AsyncResult.value(result))?.reviewer
  usePageTitle(reviewer?.name ?? "Reviewer")
  const reload = () => {
    refresh(atom)
    refreshReviewers()
    refreshAlerts()
  }
  return (
    <div className="stack">
      <p>
        <Link to="/reviewers">← All reviewers</Link>
      </p>
      <AsyncContent atom={atom}>
        {({ figures, reviewer: loaded }) => {
          const isStopped = loaded.state === "stopped"
          const tab: Tab = tabs.find(([name]) => name === wanted)?.[0] ?? "figures"
          return (
            <>
              <Head reviewer={loaded} figures={figures} rules={rules} onChange={reload} />
              <StopNotice reviewer={loaded} />
              <div>
                <Tabs
                  label="Sections"
                  selected={tab}
                  onSelect={(name) => navigate(`/reviewers/${id}/${name}`, { replace: true })}
                  hrefOf={(name) => `/reviewers/${id}/${name}`}
                  options={tabs.filter(([name]) => name !== "review" || isStopped || tab === "review")}
                />
              </div>
              {tab === "figures" ? (
                <>
                  <DecidingRules reviewer={loaded} rules={rules} onChange={reload} />
                  <Figures reviewer={loaded} figures={figures} terms={termsOfRules(rules.rules, id)} />
                  <ReviewerSettings reviewer={loaded} />
                </>
              ) : (
                <AnswerList
                  key={tab}
                  task_id={id}
                  list={tab === "answers" ? "all" : tab}
                  onChange={() => {
                    refresh(answersAtom({ task_id: id, list: "disagreements" }))
                    reload()
                  }}
                />
              )}
            </>
          )
        }}
      </AsyncContent>
    </div>
  )
}

/** The name, the state, and the buttons that stop and restore it: one click each. */
const Head = ({
  figures,
  onChange,
  reviewer,
  rules
}: {
  readonly reviewer: ReviewerModel
  readonly figures: ReadonlyArray<ReviewerFigures>
  readonly rules: ApprovalRules
  readonly onChange: () => void
}) => {
  const can = useCan()
  const { name, state, task_id } = reviewer
  const keptAs = `reviewer ${task_id}`
  const editing = useKeptDialog(keptAs)
  const [tone, label] = stateOf(reviewer, rulesOf(rules.rules, task_id).length, figures)
  const isStopped = state === "stopped"
  const change = useAction(() =>
    isStopped
      ? apiClient.reviewers.restore({ params: { task_id } })
      : apiClient.reviewers.stop({ params: { task_id } })
  )
  const run = async () => {
    if ((await change.run()) === undefined) return
    showToast(isStopped ? "Restored: it decides where its bounds hold" : "Stopped: people decide every step")
    onChange()
  }
  return (
    <>
      <PageHeader
        title={<UntrustedText text={name} />}
        aside={
          <>
            <Badge tone={tone}>{label}</Badge>
            {can("rules.write") ? (
              <>
                <Button
                  kind={isStopped ? "plain" : "bad"}
                  pending={change.pending}
                  onClick={() => void run()}
                >
                  {isStopped ? "Restore" : "Stop"}
                </Button>
                <Button onClick={editing.open}>Edit</Button>
              </>
            ) : null}
          </>
        }
      >
        <CopyRecord id={task_id} of="reviewer" path={`/v1/reviewers/${task_id}`} />
      </PageHeader>
      <FailureNotice failure={change.failure} />
      {can("rules.write") ? null : (
        <p className="notice">
          This API key may look, but not stop, restore or switch on: that needs the scope{" "}
          <code>rules.write</code>. Ask an admin of your organization.
        </p>
      )}
      {editing.isOpen ? (
        <EditReviewer
          reviewer={reviewer}
          keptAs={keptAs}
          onClose={editing.close}
          onSaved={() => {
            editing.close()
            onChange()
          }}
        />
      ) : null}
    </>
  )
}

/** Why it was stopped, and the way to what it decided before. */
const StopNotice = ({
  reviewer: { state, stopped_at, stopped_by, stopped_reason, task_id }
}: {
  readonly reviewer: ReviewerModel
}) =>
  state !== "stopped" || stopped_reason === null ? null : (
    <div className={stopped_by === null ? "notice bad" : "notice warn"} role="status">
      <p className="notice-title">People decide every step: {describeStop(stopped_reason)}</p>
      <p>
        Stopped <AbsoluteTime time={stopped_at} />
        {stopped_by === null ? (
          " by the service"
        ) : (
          <>
            {" "}
            by <UntrustedText text={stopped_by.name} />
          </>
        )}
        . It still answers beside people, and is measured. Restoring it lets it decide again where its bounds
        hold.
      </p>
      <div className="notice-actions">
        <Link className="button small" to={`/reviewers/${task_id}/review`}>
          Look at its last decisions
        </Link>
      </div>
    </div>
  )
