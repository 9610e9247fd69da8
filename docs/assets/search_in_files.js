// Search where pages are opened from files: browsers allow neither workers nor fetching there, so the
// index comes as a script (tools/docs_hooks.py writes it), and is searched in the page.
if (window.location.protocol === "file:") {
  const load = (path) =>
    new Promise((done) => {
      const script = document.createElement("script");
      script.src = base_url + "/" + path;
      script.onload = done;
      document.head.appendChild(script);
    });
  window.addEventListener("load", async () => {
    await load("search/lunr.js");
    await load("search/search_index.js");
    const places = new Map(searchIndexOfSite.docs.map((place) => [place.location, place]));
    const index = lunr(function () {
      this.ref("location");
      this.field("title", { boost: 10 });
      this.field("text");
      searchIndexOfSite.docs.forEach((place) => this.add(place));
    });
    window.doSearch = () => {
      const wanted = document.getElementById("mkdocs-search-query").value;
      const found = wanted.length > 2 ? index.search(wanted).slice(0, 50) : [];
      displayResults(
        found.map(({ ref }) => {
          const { location, title, text } = places.get(ref);
          return { location, title, summary: text.slice(0, 200) };
        }),
      );
    };
    initSearch();
  });
}
