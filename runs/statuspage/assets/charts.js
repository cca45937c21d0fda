// A chart of the last two minutes at most: a caption, the value of now, and a line.

const SVG = 'http://www.w3.org/2000/svg';
const SPAN = 120_000, SHORTEST = 20_000; // milliseconds; what a chart shows, once it has it, and from the start
const WIDTH = 100, HEIGHT = 30;

export class Chart {
  #points = []; // [milliseconds, value]
  #value;
  #unit;
  #peak;
  #stroke;
  #area;
  #format;

  // format turns a value into [text, unit].
  constructor(id, caption, title, format) {
    this.#format = format;
    this.element = document.createElement('figure');
    this.element.className = 'chart';
    this.element.id = id;
    this.element.title = title;

    const head = this.element.appendChild(document.createElement('figcaption'));
    head.appendChild(document.createElement('span')).textContent = caption;
    this.#peak = head.appendChild(document.createElement('span'));
    this.#peak.className = 'peak';

    this.#value = document.createElement('output');
    this.#value.append('–', this.#unit = document.createElement('small'));
    this.element.append(this.#value);

    const svg = this.element.appendChild(document.createElementNS(SVG, 'svg'));
    svg.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
    svg.setAttribute('preserveAspectRatio', 'none');
    svg.setAttribute('aria-hidden', 'true');
    this.#area = svg.appendChild(document.createElementNS(SVG, 'path'));
    this.#area.setAttribute('class', 'fill');
    this.#stroke = svg.appendChild(document.createElementNS(SVG, 'path'));
    this.#stroke.setAttribute('class', 'stroke');
  }

  // add takes the value of a moment; null when there is none, which leaves a gap.
  add(at, value) {
    this.#points.push([at, value]);
    while (this.#points.length && this.#points[0][0] < at - SPAN) this.#points.shift();

    const [text, unit] = value === null ? ['–', ''] : this.#format(value);
    this.#value.firstChild.data = text;
    this.#unit.textContent = unit;

    const peak = this.#points.reduce((most, [, v]) => Math.max(most, v ?? 0), 0);
    this.#peak.textContent = peak > 0 ? 'peak ' + this.#format(peak).join(' ').trim() : '';
    this.#draw(at, peak);
  }

  #draw(now, peak) {
    const span = Math.max(SHORTEST, now - this.#points[0][0]);
    const x = at => (WIDTH * (1 - (now - at) / span)).toFixed(2);
    const y = v => (HEIGHT - (peak > 0 ? v / peak : 0) * (HEIGHT - 2) - 1).toFixed(2);
    let line = '', area = '', from = null, last = null;
    const close = () => { if (from !== null) area += `L${last},${HEIGHT}L${from},${HEIGHT}Z`; from = null; };
    for (const [at, value] of this.#points) {
      if (value === null) { close(); continue; }
      const step = (from === null ? 'M' : 'L') + x(at) + ',' + y(value);
      from ??= x(at);
      last = x(at);
      line += step;
      area += step;
    }
    close();
    this.#stroke.setAttribute('d', line);
    this.#area.setAttribute('d', area);
  }
}
