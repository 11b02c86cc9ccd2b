# SPDX-License-Identifier: MIT
"""Two kinds of plots, as SVG: bars and lines, both on logarithmic scales. No library: they are a few shapes."""
import math
from xml.sax.saxutils import escape

OURS, PEER, LIMIT = "#c2410c", "#64748b", "#a3b18a"
LINES = ("#2563eb", "#0d9488", "#7c3aed", "#b45309", "#be185d", "#4d7c0f", "#0369a1", "#6b7280", "#9333ea", "#15803d",
         "#a16207", "#1d4ed8")
FONT = 'font-family="sans-serif" font-size="12"'
WIDTH = 760


def document(height, title, body):
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">\n'
            '<rect width="100%%" height="100%%" fill="#ffffff"/>\n'
            '<text x="12" y="22" %s font-weight="bold" fill="#111827">%s</text>\n%s</svg>\n'
            % (WIDTH, height, WIDTH, height, FONT, escape(title), "".join(line + "\n" for line in body)))


def number(value):
    """Short, as on an axis: 0.5, 12, 3.4k."""
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return "%.3g%s" % (value / limit, unit)
    return "%.3g" % value


def text(x, y, what, anchor="start", fill="#111827"):
    return '<text x="%.1f" y="%.1f" %s text-anchor="%s" fill="%s">%s</text>' % (x, y, FONT, anchor, fill, escape(what))


class Scale:
    """Logarithmic, from the power of ten below the least to the one above the most."""

    def __init__(self, values, begin, end):
        self.low = math.floor(math.log10(min(values)))
        self.high = max(self.low + 1, math.ceil(math.log10(max(values))))
        self.begin, self.end = begin, end

    def at(self, value):
        return self.begin + (math.log10(value) - self.low) / (self.high - self.low) * (self.end - self.begin)

    def ticks(self):
        return [10.0 ** power for power in range(self.low, self.high + 1)]


def bars(title, rows, unit):
    """rows: (label, value, low, high, colour). Longest first or last is the caller's choice."""
    rows = [row for row in rows if row[1] > 0]
    left, right, top, step = 210, WIDTH - 80, 40, 22
    scale = Scale([value for row in rows for value in (row[1], max(row[2], 1e-9)) if value > 0], left, right)
    bottom = top + step * len(rows)
    body = []
    for tick in scale.ticks():
        x = scale.at(tick)
        body.append('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#e5e7eb"/>' % (x, top - 6, x, bottom))
        body.append(text(x, bottom + 16, number(tick), "middle", "#6b7280"))
    for i, (label, value, low, high, colour) in enumerate(rows):
        y = top + i * step
        body.append(text(left - 8, y + 13, label, "end"))
        body.append('<rect x="%d" y="%d" width="%.1f" height="14" fill="%s"/>'
                    % (left, y + 2, max(1, scale.at(value) - left), colour))
        if high > low > 0:
            body.append('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#111827"/>'
                        % (scale.at(low), y + 9, scale.at(high), y + 9))
        body.append(text(max(scale.at(value), scale.at(high) if high > 0 else 0) + 6, y + 13, number(value)))
    body.append(text(right, bottom + 34, unit, "end", "#6b7280"))
    return document(bottom + 44, title, body)


def lines(title, series, across, unit):
    """series: {label: [(x, y), …]}; sneck's line is the thick one."""
    left, right, top, bottom = 60, WIDTH - 200, 40, 360
    points = [point for line in series.values() for point in line if point[1] > 0]
    horizontal = Scale([x for x, _ in points], left, right)
    vertical = Scale([y for _, y in points], bottom, top)
    body = []
    for tick in horizontal.ticks():
        x = horizontal.at(tick)
        body.append('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#e5e7eb"/>' % (x, top, x, bottom))
        body.append(text(x, bottom + 16, number(tick), "middle", "#6b7280"))
    for tick in vertical.ticks():
        y = vertical.at(tick)
        body.append('<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#e5e7eb"/>' % (left, y, right, y))
        body.append(text(left - 6, y + 4, number(tick), "end", "#6b7280"))
    colours = iter(LINES * 3)
    labels = []
    for label, line in series.items():
        line = [(x, y) for x, y in sorted(line) if y > 0]
        if not line:
            continue
        colour = OURS if label == "sneck" else next(colours)
        path = " ".join("%.1f,%.1f" % (horizontal.at(x), vertical.at(y)) for x, y in line)
        body.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="%s"/>'
                    % (path, colour, "3" if label == "sneck" else "1.5"))
        labels.append([vertical.at(line[-1][1]), label, colour])
    labels.sort()
    for above, label in zip(labels, labels[1:]):
        label[0] = max(label[0], above[0] + 14)
    body += [text(right + 8, y + 4, label, "start", colour) for y, label, colour in labels]
    body.append(text((left + right) / 2, bottom + 34, across, "middle", "#6b7280"))
    body.append(text(left - 40, top - 6, unit, "start", "#6b7280"))
    return document(max(bottom + 46, int(labels[-1][0]) + 20 if labels else 0), title, body)
