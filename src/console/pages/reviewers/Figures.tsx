import type { ReactNode } from "react"
import type { Reviewer, ReviewerFigures, ReviewerWeek } from "../../../domain/approvals/Reviewer.ts"
import type { ReviewerTerms } from "../../../domain/approvals/Reviewer/reviewerStanding.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Chart } from "../../ui/charts/Chart.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { Table } from "../../ui/Table.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { dayLabel, percentage, percentText } from "../overview/figures.ts"
import {
  bandOf,
  greatestPercent,
  leastPercent,
  settingPercent,
  shareText,
  standingOf
} from "./reviewerTexts.ts"

/** The figures of a reviewer model per tool and band of amounts, and their change by week. */
export const Figures = ({
  figures,
  reviewer: { amount },
  terms: { max_false_approvals, min_lower_bound }
}: {
  readonly reviewer: Reviewer
  readonly figures: ReadonlyArray<ReviewerFigures>
  readonly terms: ReviewerTerms
}) =>
  figures.length === 0 ? (
    <div className="card">
      <EmptyState title="Nothing compared yet">
        It is asked about each step of its tools that waits for a person. Its answers count once people have
        decided, and can have read what they decided.
      </EmptyState>
    </div>
  ) : (
    <>
      <section className="stack" aria-labelledby="agreement">
        <h2 id="agreement">Agreement with people</h2>
        <p className="quiet">
          It may decide where people agree with at least {settingPercent(min_lower_bound)} % of its answers
          and reject at most {settingPercent(max_false_approvals)} % of its approvals. “At least” and “at
          most” hold with a chance of 95 %, however often one looks.
        </p>
        <Table
          columns={[
            amount === null ? "Tool" : "Tool and amount",
            { name: "Agreed", number: true },
            { name: "False approvals", number: true },
            { name: "False rejections", number: true },
            { name: "Unsure", number: true },
            "It may decide"
          ]}
        >
          {figures.map((one) => (
            <Row key={`${one.tool} ${bandOf(one)}`} figures={one} hasAmount={amount !== null} />
          ))}
        </Table>
      </section>
      <Weeks weeks={sumWeeks(figures)} />
    </>
  )

const Row = ({ figures, hasAmount }: { readonly figures: ReviewerFigures; readonly hasAmount: boolean }) => {
  const { agreement, false_approvals, false_rejections, tool, unsure } = figures
  const { detail, label, tone } = standingOf(figures)
  return (
    <tr>
      <td className="figures-tool">
        <span className="tool-name">
          <UntrustedText text={tool} />
        </span>
        {hasAmount ? <div className="quiet small">{bandOf(figures)}</div> : null}
      </td>
      <Share label="Agreed" share={agreement}>
        at least {leastPercent(agreement.bound)}
      </Share>
      <Share label="False approvals" share={false_approvals}>
        at most {greatestPercent(false_approvals.bound)}
      </Share>
      <Share label="False rejections" share={false_rejections}>
        at most {greatestPercent(false_rejections.bound)}
      </Share>
      <td className="number" data-label="Unsure">
        {unsure.toLocaleString("en")}
      </td>
      <td data-label="It may decide">
        <Badge tone={tone}>{label}</Badge>
        {detail === "" ? null : <div className="quiet small standing-detail">{detail}</div>}
      </td>
    </tr>
  )
}

const Share = ({
  children,
  label,
  share
}: {
  readonly label: string
  readonly share: ReviewerFigures["agreement"]
  /** Its bound. */
  readonly children: ReactNode
}) => (
  <td className="number" data-label={label}>
    {shareText(share)}
    {share.of === 0 ? null : <div className="quiet small bound">{children}</div>}
  </td>
)

/** The weeks of all tools and bands, oldest first. */
const sumWeeks = (figures: ReadonlyArray<ReviewerFigures>): ReadonlyArray<ReviewerWeek> => {
  const sums = new Map<string, ReviewerWeek>()
  for (const one of figures.flatMap(({ weeks }) => weeks)) {
    const sum = sums.get(one.week)
    sums.set(
      one.week,
      sum === undefined
        ? one
        : {
            week: one.week,
            agreed: sum.agreed + one.agreed,
            false_approvals: sum.false_approvals + one.false_approvals,
            false_rejections: sum.false_rejections + one.false_rejections,
            unsure: sum.unsure + one.unsure
          }
    )
  }
  return [...sums.values()].toSorted((left, right) => left.week.localeCompare(right.week))
}

const Weeks = ({ weeks }: { readonly weeks: ReadonlyArray<ReviewerWeek> }) => {
  if (weeks.length === 0) return null
  const shareOf = ({ agreed, false_approvals, false_rejections }: ReviewerWeek) =>
    percentage(false_approvals + false_rejections, agreed + false_approvals + false_rejections)
  const newest = weeks.at(-1)
  return (
    <section className="stack" aria-labelledby="drift">
      <h2 id="drift">By week</h2>
      <div className="card padded plots">
        <Chart
          kind="lines"
          caption="Disagreement"
          firstColumn="Week from (UTC)"
          series={[{ name: "disagreed", tone: "first" }]}
          format={(value) => percentText(value)}
          points={weeks.map((one) => ({ key: one.week, label: dayLabel(one.week), values: [shareOf(one)] }))}
          summary={newest === undefined ? "" : `${percentText(shareOf(newest))} in the newest week`}
        />
        <Chart
          kind="bars"
          caption="Answers"
          firstColumn="Week from (UTC)"
          series={[
            { name: "agreed", tone: "good" },
            { name: "false approvals", tone: "bad" },
            { name: "false rejections", tone: "wait" },
            { name: "unsure", tone: "fourth" }
          ]}
          points={weeks.map(({ agreed, false_approvals, false_rejections, unsure, week }) => ({
            key: week,
            label: dayLabel(week),
            values: [agreed, false_approvals, false_rejections, unsure]
          }))}
          summary="compared with people’s decisions"
        />
      </div>
    </section>
  )
}
