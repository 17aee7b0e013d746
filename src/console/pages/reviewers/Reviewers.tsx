import { Option } from "effect"
import { AsyncResult } from "effect/reactivity"
import type { ApprovalRule } from "../../../domain/approvals/ApprovalRule.ts"
import type { Reviewer, ReviewerFigures } from "../../../domain/approvals/Reviewer.ts"
import { Link } from "../../app/router.tsx"
import { useAtomValue } from "../../state/atoms.ts"
import { reviewerAtom, reviewersAtom } from "../../state/reviewers.ts"
import { rulesAtom } from "../../state/rules.ts"
import { useCan } from "../../state/session.ts"
import { useRefreshing } from "../../state/useRefreshing.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Badge } from "../../ui/Badge.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { Table } from "../../ui/Table.tsx"
import { RelativeTime } from "../../ui/Time.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { stateOf } from "./reviewerTexts.ts"
import { rulesOf, termsOfRules } from "./termsOfRules.ts"

/** How often the list is read again. */
const REFRESH_MS = 15_000

/** The reviewer models of the organization. */
export default function Reviewers() {
  const can = useCan()
  useRefreshing(reviewersAtom, true, REFRESH_MS)
  const rules = Option.getOrUndefined(AsyncResult.value(useAtomValue(rulesAtom)))?.rules ?? []
  return (
    <>
      <PageHeader
        title="Reviewers"
        aside={
          can("rules.write") ? (
            <Link className="button primary" to="/reviewers/new">
              New reviewer
            </Link>
          ) : null
        }
      >
        Models that answer beside people, and decide only what they have earned.
      </PageHeader>
      <AsyncContent atom={reviewersAtom}>
        {(reviewers) =>
          reviewers.length === 0 ? (
            <NoReviewers />
          ) : (
            <Table
              columns={[
                "Reviewer",
                "State",
                "Agreed with people",
                "Decides in",
                { name: "Calls today", number: true },
                "Created"
              ]}
            >
              {reviewers.map((reviewer) => (
                <Row key={reviewer.task_id} reviewer={reviewer} rules={rules} />
              ))}
            </Table>
          )
        }
      </AsyncContent>
    </>
  )
}

const NoReviewers = () => {
  const can = useCan()
  return (
    <div className="card">
      <EmptyState title="No reviewers yet">
        <p>
          A reviewer is a model that is asked about the same steps as people, and whose answers are compared
          with their decisions. Once it has agreed often enough, a rule can let it decide; it loses that right
          by itself when it no longer agrees.
        </p>
        <div className="notice-actions">
          {can("rules.write") ? (
            <Link className="button primary" to="/reviewers/new">
              New reviewer
            </Link>
          ) : (
            <p>Creating one needs the scope rules.write, which this API key lacks. Ask an admin.</p>
          )}
        </div>
      </EmptyState>
    </div>
  )
}

const Row = ({
  reviewer,
  rules
}: {
  readonly reviewer: Reviewer
  readonly rules: ReadonlyArray<ApprovalRule>
}) => {
  const { created_at, created_by, daily_calls, name, stopped_at, task_id, tools, used } = reviewer
  const named = rulesOf(rules, task_id)
  const atom = reviewerAtom({ task_id, terms: termsOfRules(rules, task_id) })
  const figures = Option.getOrUndefined(AsyncResult.value(useAtomValue(atom)))?.figures
  const [tone, label] = stateOf(reviewer, named.length, figures ?? [])
  return (
    <tr>
      <td>
        <Link to={`/reviewers/${task_id}`}>
          <UntrustedText text={name} />
        </Link>
        <div className="quiet small">
          <UntrustedText text={tools.join(", ")} />
        </div>
      </td>
      <td data-label="State">
        {figures === undefined ? <span className="quiet">…</span> : <Badge tone={tone}>{label}</Badge>}
        {stopped_at === null ? null : (
          <div className="quiet small">
            <RelativeTime time={stopped_at} />
          </div>
        )}
      </td>
      <td data-label="Agreed with people">
        <Agreement figures={figures} />
      </td>
      <td data-label="Decides in">
        {named.length === 0 ? (
          <span className="quiet">no rule</span>
        ) : (
          named.map(({ number, rule }, index) => (
            <span key={rule.id}>
              {index === 0 ? "" : ", "}
              <Link to={`/rules?rule=${rule.id}`}>Rule {number}</Link>
            </span>
          ))
        )}
      </td>
      <td className="number" data-label="Calls today">
        {used.calls.toLocaleString("en")} of {daily_calls.toLocaleString("en")}
        {used.used_up ? <div className="failing small">used up</div> : null}
      </td>
      <td data-label="Created">
        <RelativeTime time={created_at} />
        <div className="quiet small">
          by <UntrustedText text={created_by.name} />
        </div>
      </td>
    </tr>
  )
}

/** The answers with which people agreed, over all tools, and how many kinds of steps have been earned. */
const Agreement = ({ figures }: { readonly figures: ReadonlyArray<ReviewerFigures> | undefined }) => {
  if (figures === undefined) return <span className="quiet">…</span>
  const agreed = figures.reduce((sum, { agreement }) => sum + agreement.count, 0)
  const of = figures.reduce((sum, { agreement }) => sum + agreement.of, 0)
  const earned = figures.filter(({ approve, has_amount }) => has_amount && approve === null).length
  return of === 0 ? (
    <span className="quiet">nothing compared yet</span>
  ) : (
    <>
      {agreed.toLocaleString("en")} of {of.toLocaleString("en")}
      <div className="quiet small">
        may approve {earned} of {figures.length} {figures.length === 1 ? "kind" : "kinds"} of steps
      </div>
    </>
  )
}
