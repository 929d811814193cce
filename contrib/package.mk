# package.mk - install, uninstall, and the Debian package.
.PHONY: install uninstall deb wheel systemd-check

# Below a prefix of one's own there is an etc of one's own.
sysconfdir ?= $(if $(filter /usr /usr/local,$(prefix:/=)),/etc,$(prefix)/etc)
unitdir    ?= $(prefix)/lib/systemd
# Where Debian's zsh looks: vendor-completions for what is in a package.
zshdir     ?= $(datadir)/zsh/$(if $(filter /usr,$(prefix)),vendor-completions,site-functions)
# Python's own path has it in a package; elsewhere PYTHONPATH, or make wheel.
pythondir  ?= $(if $(filter /usr,$(prefix)),$(prefix)/lib/python3/dist-packages,$(datadir)/mgpu/python)
# Jobs, and the model and the rows that those of kind llm name.
examples   = $(wildcard jobs/examples/*.yaml jobs/examples/stories260K/* \
               jobs/examples/story-names/* jobs/examples/torch-ddp.py)
install: $(if $(NOBUILD),,all)
	install -d $(DESTDIR)$(bindir) $(DESTDIR)$(libdir)/mgpu
	install -m 755 $(bins) $(DESTDIR)$(bindir)
	$(if $(plugin),install -m 755 $(plugin) $(DESTDIR)$(libdir)/mgpu)
	for t in submit stat cancel admin web sim model; do install -D -m 644 \
	    scheduler/tools/completion.bash \
	    $(DESTDIR)$(datadir)/bash-completion/completions/mgpu-$$t || exit 1; done
	install -D -m 644 scheduler/tools/completion.zsh $(DESTDIR)$(zshdir)/_mgpu
	for e in $(examples); do install -D -m 644 $$e \
	    $(DESTDIR)$(datadir)/doc/mgpu/examples/$${e#jobs/examples/} || exit 1; done
	for e in jobs/paper/*; do install -D -m 644 $$e \
	    $(DESTDIR)$(datadir)/doc/mgpu/paper/$${e##*/} || exit 1; done
	install -D -m 644 $(schema) \
	    $(DESTDIR)$(datadir)/mgpu/mgpu.schema.json
	for m in $(pages); do install -D -m 644 $$m \
	    $(DESTDIR)$(mandir)/man$${m##*.}/$${m##*/} || exit 1; done
	for d in system user; do install -d $(DESTDIR)$(unitdir)/$$d; \
	    sed 's|@bindir@|$(bindir)|' contrib/systemd/mgpu-ctld.$$d.service \
	    >$(DESTDIR)$(unitdir)/$$d/mgpu-ctld.service || exit 1; done
	sed 's|@bindir@|$(bindir)|' contrib/systemd/mgpu-web.service \
	    >$(DESTDIR)$(unitdir)/system/mgpu-web.service
	install -D -m 644 contrib/systemd/sysusers.conf \
	    $(DESTDIR)$(prefix)/lib/sysusers.d/mgpu.conf
	install -D -m 644 contrib/systemd/tmpfiles.conf \
	    $(DESTDIR)$(prefix)/lib/tmpfiles.d/mgpu.conf
	for e in mail webhook; do install -D -m 755 contrib/notify/$$e \
	    $(DESTDIR)$(datadir)/doc/mgpu/notify/$$e || exit 1; done
	install -D -m 644 contrib/logrotate \
	    $(DESTDIR)$(sysconfdir)/logrotate.d/mgpu
	install -D -m 644 contrib/grafana/mgpu.json \
	    $(DESTDIR)$(datadir)/mgpu/grafana/mgpu.json
	install -D -m 644 contrib/python/mgpu.py $(DESTDIR)$(pythondir)/mgpu.py
uninstall:
	cd $(DESTDIR)$(bindir) && rm -f $(notdir $(bins))
	rm -rf $(DESTDIR)$(libdir)/mgpu $(DESTDIR)$(datadir)/doc/mgpu \
	    $(DESTDIR)$(datadir)/mgpu
	cd $(DESTDIR)$(datadir)/bash-completion/completions && \
	    rm -f mgpu-submit mgpu-stat mgpu-cancel mgpu-admin mgpu-web \
	    mgpu-sim mgpu-model
	rm -f $(DESTDIR)$(zshdir)/_mgpu $(DESTDIR)$(pythondir)/mgpu.py
	for m in $(pages); do rm -f \
	    $(DESTDIR)$(mandir)/man$${m##*.}/$${m##*/}; done
	rm -f $(DESTDIR)$(unitdir)/system/mgpu-ctld.service \
	    $(DESTDIR)$(unitdir)/user/mgpu-ctld.service \
	    $(DESTDIR)$(unitdir)/system/mgpu-web.service \
	    $(DESTDIR)$(prefix)/lib/sysusers.d/mgpu.conf \
	    $(DESTDIR)$(prefix)/lib/tmpfiles.d/mgpu.conf \
	    $(DESTDIR)$(sysconfdir)/logrotate.d/mgpu
	rm -rf $(DESTDIR)$(datadir)/mgpu

# A Debian package of what install puts there. Needs dpkg-dev.
deb: $(if $(NOBUILD),,all)
	$(Q)rm -rf build/deb
	$(Q)$(MAKE) --no-print-directory NOBUILD=1 install prefix=/usr \
	    DESTDIR=$(abspath build/deb/root) >/dev/null
	$(Q)sh contrib/deb/build build/deb
# mgpu.py for pip, which needs no network for it.
PYTHON ?=
wheel:
	$(Q)$(or $(PYTHON),/usr/bin/python3) -B contrib/python/wheel.py build/python
# As root; needs debootstrap and qemu-system-x86. See tests/systemd/boot.sh.
systemd-check: deb
	$(Q)tests/systemd/boot.sh build/deb/*.deb build/systemd
