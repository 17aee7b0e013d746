import type { ComparisonSummary, SideSummary } from "../../../domain/tasks/Comparison.ts"
import { Badge } from "../../ui/Badge.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { formatPercent } from "./Comparisons.tsx"

/** How often each side gives the right answer: a bar with where it lies for certain, and the same by field. */
export const AgreementSummary = ({ summary }: { readonly summary: ComparisonSummary }) => {
  const { difference, fields } = summary
  return (
    <>
      <div className="change-head">
        <h2>Agreement with the examples</h2>
        {summary.candidate.agreement === null ? null : difference.low > 0 ? (
          <Badge tone="good">the candidate is better</Badge>
        ) : difference.high < 0 ? (
          <Badge tone="bad">the candidate is worse</Badge>
        ) : (
          <Badge tone="quiet">no difference that is certain</Badge>
        )}
      </div>
      <Bar label="Candidate" side={summary.candidate} />
      <Bar label="Live" side={summary.live} />
      <p className="quiet small">
        The difference is {points(difference.value)}, with 95 % confidence between {points(difference.low)}{" "}
        and {points(difference.high)}. The line across a bar shows where its own share lies.
      </p>
      {fields.length === 0 ? null : (
        <div className="table-scroll">
          <table className="table">
            <thead>
              <tr>
                <th scope="col">Field</th>
                <th scope="col" className="number">
                  Candidate
                </th>
                <th scope="col" className="number">
                  Live
                </th>
              </tr>
            </thead>
            <tbody>
              {fields.map(({ candidate, compared, field, live }) => (
                <tr key={field}>
                  <th scope="row">
                    <UntrustedText text={field} />
                  </th>
                  <td className="number">{formatPercent(compared === 0 ? null : candidate / compared)}</td>
                  <td className="number">{formatPercent(compared === 0 ? null : live / compared)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  )
}

const points = (value: number): string =>
  `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(Math.round(value * 1_000) / 10).toLocaleString("en")} points`

/** A share as a place in the bar, so far from its ends that a mark there is seen whole. */
const inside = (share: number): number => Math.min(996, Math.max(4, share * 1000))

const Bar = ({ label, side }: { readonly label: string; readonly side: SideSummary }) => {
  const { high, low } = side.agreement_interval
  return (
    <div className="agreement">
      <div className="agreement-text">
        <span className="legend">{label}</span>
        <strong>{formatPercent(side.agreement)}</strong>
      </div>
      <svg viewBox="0 0 1000 24" preserveAspectRatio="none" aria-hidden="true">
        <rect width="1000" height="24" className="agreement-whole" />
        <rect
          width={(side.agreement ?? 0) * 1000}
          height="24"
          className={label === "Live" ? "agreement-live" : "agreement-candidate"}
        />
        {side.agreement === null ? null : (
          <path d={`M${inside(low)} 5 v14 m0 -7 H${inside(high)} m0 -7 v14`} className="agreement-interval" />
        )}
      </svg>
      <span className="visually-hidden">
        with 95 % confidence between {formatPercent(low)} and {formatPercent(high)}
      </span>
    </div>
  )
}
